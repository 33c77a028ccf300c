"""Talking to an agent over a channel as PROTOCOL.md has it, without the service between."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from airlock.engine import Channel, Engine
from airlock_agent.frames import MAX_EVENT_BODY, MAX_EVENT_HEADER, Decoder, Frame, encode


class Conversation:
    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._decoder = Decoder(MAX_EVENT_HEADER, MAX_EVENT_BODY)
        self._frames: list[Frame] = []

    async def say(self, header: dict[str, Any], body: bytes = b"") -> None:
        await self.channel.write(encode(header, body))

    async def hear(self) -> Frame:
        while not self._frames:
            data = await self.channel.read()
            assert data, "the channel has ended"
            self._frames += self._decoder.feed(data)
        return self._frames.pop(0)

    async def hello(self) -> dict[str, Any]:
        await self.say({"verb": "hello"})
        header, _ = await self.hear()
        assert header["event"] == "hello"
        return header

    async def write(self, path: str, body: bytes) -> None:
        await self.say({"verb": "write", "ref": 1, "path": path}, body)
        assert (await self.hear()).header == {"event": "reply", "ref": 1}

    async def run(self, *argv: str) -> tuple[int, bytes]:
        """Run a program to its end: its exit code, and its stdout."""
        output = {"head": 1 << 16, "tail": 1 << 16, "ceiling": 1 << 20}
        start = {"verb": "start", "process": "run_1", "argv": argv, "args": [], "cwd": ".", "env": {}}
        await self.say({**start, "ref": 2, "timeout": 20, "grace": 1, "output": output})
        await self.say({"verb": "close_stdin", "process": "run_1"})
        stdout = b""
        while True:
            header, body = await self.hear()
            assert "error" not in header, header
            if header["event"] == "exit":
                return header["code"], stdout
            if header["event"] == "output" and header["stream"] == "stdout":
                stdout += body


@asynccontextmanager
async def conversation(engine: Engine, sandbox_id: str) -> AsyncIterator[Conversation]:
    channel = await engine.connect(sandbox_id)
    try:
        talk = Conversation(channel)
        await talk.hello()
        yield talk
    finally:
        await channel.aclose()


async def eventually(condition: Callable[[], Awaitable[bool]], seconds: float = 20) -> None:
    """Polls, because what happens outside of the service tells nobody."""
    deadline = time.monotonic() + seconds
    while not await condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.01)
