"""A daemon that answers as it is told, over a real unix socket that can be away."""

import asyncio
import json

import pytest

VERSION = {"ApiVersion": "1.41", "MinAPIVersion": "1.12"}


class ScriptedDaemon:
    """`answers` has what each call gets, one after the other, the last one for ever.

    An answer is a status and a body, None to hang up without one, or an Event to wait for before the next.
    """

    def __init__(self, path):
        self.path = path
        self.answers = {"GET /version": [(200, VERSION)]}
        self.calls = []
        self.called = asyncio.Condition()
        self._server = None
        self._connections = set()

    async def start(self):
        self._server = await asyncio.start_unix_server(self._serve, self.path)

    async def stop(self):
        self._server.close()
        for connection in list(self._connections):
            connection.transport.abort()
        await self._server.wait_closed()
        self.path.unlink()

    async def until(self, call):
        async with self.called:
            await self.called.wait_for(lambda: call in self.calls)

    async def _serve(self, reader, writer):
        self._connections.add(writer)
        try:
            await self._answer(reader, writer)
        except asyncio.IncompleteReadError:
            pass  # a connection that was opened for nothing
        finally:
            self._connections.discard(writer)
            writer.close()

    async def _answer(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        method, target, _ = head.split(" ", 2)
        length = next((line for line in head.splitlines() if line.startswith("content-length:")), ":0")
        await reader.readexactly(int(length.partition(":")[2]))
        call = f"{method.upper()} {target.partition('?')[0]}"
        async with self.called:
            self.calls.append(call)
            self.called.notify_all()
        answer = self._next(call)
        while isinstance(answer, asyncio.Event):
            await answer.wait()
            answer = self._next(call)
        if answer is not None:
            status, body = answer
            text = body if isinstance(body, bytes) else json.dumps(body).encode()
            writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)
            await writer.drain()

    def _next(self, call):
        answers = self.answers.get(call, [(404, {"message": "no such container"})])
        return answers.pop(0) if len(answers) > 1 else answers[0]


@pytest.fixture
async def daemon(tmp_path):
    daemon = ScriptedDaemon(tmp_path / "docker.sock")
    await daemon.start()
    yield daemon
    await daemon.stop()
