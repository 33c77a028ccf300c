"""The service's end of the channel to one agent.

One task reads the channel and hands each frame to whoever waits for it. Nothing that arrives is trusted: a
frame that is too large, malformed or about an unknown process ends the link, and with it the sandbox.
"""

import asyncio
import contextlib
import math
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from airlock.engine import Channel
from airlock.errors import (
    AirlockError,
    Conflict,
    EngineUnavailable,
    InvalidArguments,
    PathOutsideWorkspace,
    SandboxFailed,
)
from airlock.model import RunOutput, StreamName
from airlock_agent import PROTOCOL
from airlock_agent.frames import MAX_EVENT_BODY, MAX_EVENT_HEADER, Decoder, Frame, FrameError, encode

Reason = Literal["timed_out", "oom_killed", "output_limit", "disk_full", "killed"]
_REASONS = frozenset({"timed_out", "oom_killed", "output_limit", "disk_full", "killed"})
JOIN_BELOW = 4096
FAREWELL_SECONDS = 0.5
_REFUSALS: Mapping[str, type[AirlockError]] = {
    error.code: error for error in (InvalidArguments, PathOutsideWorkspace, Conflict, SandboxFailed)
}


@dataclass(frozen=True, slots=True)
class Exit:
    """An agent's last word on a program."""

    code: int | None
    signal: int | None
    reason: Reason | None
    stdout_bytes: int
    stderr_bytes: int
    cpu_ms: float
    peak_memory_bytes: int


class LinkLost(Exception):
    """The channel ended, or the agent broke the protocol, before all was said."""


class Overdue(LinkLost):
    """The agent was silent past the deadline, and is not listened to any more."""


class RemoteProcess:
    """A program in the sandbox. Its news waits here, bounded by the output limit that the agent was given."""

    def __init__(self, link: "AgentLink", name: str, max_output: int) -> None:
        self._link = link
        self._name = name
        self._room = max_output
        self._news: deque[RunOutput | Exit | LinkLost] = deque()
        self._arrived = asyncio.Event()
        self.last_heard = time.monotonic()
        self.over = asyncio.Event()

    async def next(self) -> RunOutput | Exit:
        while not self._news:
            self._arrived.clear()
            await self._arrived.wait()
        news = self._news.popleft()
        if isinstance(news, LinkLost):
            raise news
        return news

    async def feed(self, data: bytes | None) -> None:
        """Give it all its input, and then the end of file."""
        if data:
            await self._link.send({"verb": "stdin", "process": self._name}, data)
        await self._link.send({"verb": "close_stdin", "process": self._name})

    def tell(self, news: RunOutput | Exit | LinkLost) -> None:
        self.last_heard = time.monotonic()
        if isinstance(news, RunOutput):
            self._room -= len(news.data)
            if self._room < 0:
                raise FrameError("the agent sends more output than it was allowed to")
            news = self._joined(news)
        self._news.append(news)
        self._arrived.set()

    def _joined(self, news: RunOutput) -> RunOutput:
        """With what waits already, if it goes on there: a program that prints byte by byte costs no more."""
        last = self._news[-1] if self._news else None
        if (
            isinstance(last, RunOutput)
            and last.stream == news.stream
            and last.offset + len(last.data) == news.offset
            and len(last.data) < JOIN_BELOW
        ):
            self._news.pop()
            return RunOutput(news.stream, last.offset, last.data + news.data)
        return news


class AgentLink:
    """A channel that has said hello."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._replies: dict[int, asyncio.Future[None]] = {}
        self._processes: dict[str, RemoteProcess] = {}
        self._hello: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        self._last_ref = 0
        self._reader = asyncio.create_task(self._read(), name="agent-link")
        self.languages: frozenset[str] = frozenset()

    @classmethod
    async def open(cls, channel: Channel) -> "AgentLink":
        link = cls(channel)
        try:
            await link.send({"verb": "hello"})
            link.languages = frozenset(await link._hello)
        except BaseException:
            await link.aclose()
            raise
        return link

    @property
    def is_open(self) -> bool:
        return not self._reader.done()

    async def end_programs(self) -> None:
        """Have the agent kill what runs and clean up after it, if it is quick about it."""
        with contextlib.suppress(AirlockError, TimeoutError):
            async with asyncio.timeout(FAREWELL_SECONDS):
                for name in list(self._processes):
                    await self.send({"verb": "kill", "process": name})
                while self._processes and self.is_open:
                    await self._processes[next(iter(self._processes))].over.wait()

    async def aclose(self) -> None:
        self._reader.cancel()
        await asyncio.wait([self._reader])
        await self._channel.aclose()

    async def send(self, header: dict[str, Any], body: bytes = b"") -> None:
        await self._channel.write(encode(header, body))

    async def write_file(self, path: str, data: bytes) -> None:
        try:
            await self._call({"verb": "write", "path": path}, data)
        except LinkLost as lost:
            raise SandboxFailed(str(lost)) from None

    async def start(self, name: str, header: dict[str, Any], body: bytes, max_output: int) -> RemoteProcess:
        """The program. If the link is lost, it may have begun or not: then the loss is its first news."""
        if not self.is_open:
            raise SandboxFailed("the sandbox ended before it could take the program")
        process = self._processes[name] = RemoteProcess(self, name, max_output)
        with contextlib.suppress(LinkLost):
            await self._call({"verb": "start", "process": name, **header}, body)
        return process

    async def _call(self, header: dict[str, Any], body: bytes) -> None:
        """Send it and wait for the reply. Refusals come as errors of the taxonomy; else LinkLost."""
        if not self.is_open:
            raise LinkLost("the channel to the sandbox has ended")
        self._last_ref += 1
        reply = self._replies[self._last_ref] = asyncio.get_running_loop().create_future()
        # If it can't be sent, the reading side will hear of it too, and give up on the reply.
        with contextlib.suppress(EngineUnavailable):
            await self.send({**header, "ref": self._last_ref}, body)
        await reply

    async def _read(self) -> None:
        decoder = Decoder(MAX_EVENT_HEADER, MAX_EVENT_BODY)
        lost = LinkLost("the channel to the sandbox ended")
        try:
            while data := await self._channel.read():
                for frame in decoder.feed(data):
                    self._take(frame)
        except Exception as error:  # whatever an agent says must end as a lost link, and nowhere else
            lost = LinkLost(f"the agent broke the protocol: {error!r}")
        finally:
            self._give_up(lost)

    def _take(self, frame: Frame) -> None:
        header, body = frame
        match header["event"]:
            case "hello":
                self._take_hello(header)
            case "reply":
                self._take_reply(header)
            case "output":
                stream = header["stream"]
                if stream not in ("stdout", "stderr") or not body:
                    raise FrameError("unknown stream, or no output")
                output = RunOutput(cast(StreamName, stream), _count(header["offset"]), body)
                self._processes[header["process"]].tell(output)
            case "exit":
                process = self._processes[header["process"]]
                process.tell(_parse_exit(header))
                del self._processes[header["process"]]
                process.over.set()
            case other:
                raise FrameError(f"unknown event {other!r}")

    def _take_hello(self, header: dict[str, Any]) -> None:
        if self._hello.done():
            raise FrameError("a second hello")
        if header["protocol"] != PROTOCOL:
            error = SandboxFailed("the sandbox image is of another version of Airlock: run `make image`")
            self._hello.set_exception(error)
        else:
            self._hello.set_result([str(name) for name in header["languages"]])

    def _take_reply(self, header: dict[str, Any]) -> None:
        reply = self._replies.pop(header["ref"])
        if reply.done():  # the caller has gone
            return
        if (error := header.get("error")) is None:
            reply.set_result(None)
        else:
            reply.set_exception(_REFUSALS.get(error["code"], SandboxFailed)(str(error["message"])))

    def _give_up(self, lost: LinkLost) -> None:
        if not self._hello.done():
            self._hello.set_exception(SandboxFailed(str(lost)))
            self._hello.exception()  # seen: nobody may be waiting any more
        for reply in self._replies.values():
            if not reply.done():
                reply.set_exception(lost)
                reply.exception()
        for process in self._processes.values():
            process.tell(lost)
            process.over.set()


def _count(value: Any) -> int:
    if not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise FrameError("not a count")
    return value


def _milliseconds(value: Any) -> float:
    if not isinstance(value, int | float) or not 0 <= value < 1e12 or math.isnan(value):
        raise FrameError("not a time")
    return float(value)


def _parse_exit(header: dict[str, Any]) -> Exit:
    reason, code, signal = header["reason"], header["code"], header["signal"]
    if reason is not None and reason not in _REASONS:
        raise FrameError("unknown reason")
    return Exit(
        code=None if code is None else _count(code),
        signal=None if signal is None else _count(signal),
        reason=cast(Reason | None, reason),
        stdout_bytes=_count(header["stdout"]),
        stderr_bytes=_count(header["stderr"]),
        cpu_ms=_milliseconds(header["cpu_ms"]),
        peak_memory_bytes=_count(header["peak_memory_bytes"]),
    )
