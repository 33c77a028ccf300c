"""The channel to an agent: the container's stdin and stdout, attached over a connection of its own.

The daemon answers the attach with 101 and from then on sends blocks: one byte for the stream, three of zero,
four for the size (big-endian), and that many bytes. What goes the other way is stdin, as it is.

No task runs here: `read` takes from the connection what it needs, and asyncio stops reading from the socket
while its bounded buffer is full. So a slow service slows the agent, and nothing piles up between them.
"""

import asyncio
import logging
import re
import struct
from contextlib import suppress

from airlock.engines.docker.host import DockerHost
from airlock.errors import EngineError, EngineUnavailable, SandboxFailed, SandboxNotFound

BLOCK = struct.Struct(">B3sI")
STDOUT, STDERR = 1, 2
MAX_BLOCK = 1 << 24
"""Docker's blocks are of some 32 KiB. A size far beyond is not a size."""
READ_SIZE = 1 << 16
MAX_COMPLAINTS = 8 << 10
"""How much of an agent's stderr goes to the log. An agent at its wits' end may repeat itself."""

log = logging.getLogger(__name__)


class DockerChannel:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, container: str) -> None:
        self._reader = reader
        self._writer = writer
        self._container = container
        self._stream = STDOUT
        self._left = 0
        self._ended = False
        self._complaints = MAX_COMPLAINTS
        # `drain` then waits until all is handed over, and `aclose` has nothing to flush.
        writer.transport.set_write_buffer_limits(high=0)

    async def read(self) -> bytes:
        try:
            return b"" if self._ended else await self._next()
        except (OSError, EOFError):
            self._ended = True
            return b""

    async def write(self, data: bytes) -> None:
        try:
            # The daemon hangs up one way only: what is written after that would go nowhere, and no one tell.
            if self._ended or self._reader.at_eof():
                raise BrokenPipeError
            self._writer.write(data)
            await self._writer.drain()
        except OSError as error:
            raise EngineUnavailable("the channel to the sandbox is gone", retry_after=1) from error

    async def aclose(self) -> None:
        # Not `close`, which with TLS waits for the other side's goodbye.
        self._writer.transport.abort()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def _next(self) -> bytes:
        """The next bytes of stdout. Cancelled at any await, it loses none."""
        while True:
            while not self._left:
                self._begin(await self._reader.readexactly(BLOCK.size))
            data = await self._reader.read(min(self._left, READ_SIZE))
            if not data:
                raise EOFError
            self._left -= len(data)
            if self._stream == STDOUT:
                return data
            self._complain(data)

    def _begin(self, head: bytes) -> None:
        stream, zeros, size = BLOCK.unpack(head)
        if stream not in (STDOUT, STDERR) or any(zeros) or size > MAX_BLOCK:
            log.error("%s: Docker sent what is not an attached stream", self._container)
            raise EOFError
        self._stream, self._left = stream, size

    def _complain(self, data: bytes) -> None:
        if self._complaints:
            log.warning("%s: the agent complains: %r", self._container, data[: self._complaints])
            self._complaints = max(0, self._complaints - len(data))


async def attach(host: DockerHost, version: str, container: str) -> DockerChannel:
    """Attach to a container. OSError where the daemon can't be reached."""
    reader, writer = await host.open()
    try:
        path = f"/v{version}/containers/{container}/attach?stream=1&stdin=1&stdout=1&stderr=1"
        writer.write(
            f"POST {path} HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
            "Content-Length: 0\r\n\r\n".encode()
        )
        status = _status(await reader.readuntil(b"\r\n\r\n"))
        if status != 101:
            raise _refusal(status)
    except BaseException as error:
        writer.transport.abort()
        if isinstance(error, asyncio.LimitOverrunError | asyncio.IncompleteReadError):
            raise ConnectionError("the Docker engine does not speak HTTP") from error
        raise
    return DockerChannel(reader, writer, container)


def _status(head: bytes) -> int:
    line = re.match(rb"HTTP/1\.1 (\d{3})\b", head)
    if line is None:
        raise EngineError("the Docker engine does not answer in HTTP/1.1")
    return int(line[1])


def _refusal(status: int) -> EngineError | SandboxNotFound:
    if status == 404:
        return SandboxNotFound("there is no such sandbox")
    if status == 409:
        return SandboxFailed("the sandbox is paused or restarting, and can't be attached to")
    if status >= 500:
        return EngineUnavailable(f"the Docker engine answered {status} to an attach", retry_after=1)
    return EngineError(f"the Docker engine answered {status} to an attach")
