"""The channel to an agent: a connection to the socket that it listens on."""

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from airlock.errors import EngineUnavailable

READ_SIZE = 1 << 16
BACKLOG = 16


class SocketChannel:
    """asyncio stops reading from the socket while its bounded buffer is full, and so slows the agent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        # `drain` then waits until all is handed over, and `aclose` has nothing to flush.
        writer.transport.set_write_buffer_limits(high=0)

    async def read(self) -> bytes:
        try:
            return await self._reader.read(READ_SIZE)
        except OSError:
            return b""

    async def write(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as error:
            raise EngineUnavailable("the channel to the sandbox is gone", retry_after=1) from error

    async def aclose(self) -> None:
        self._writer.transport.abort()
        with suppress(OSError):
            await self._writer.wait_closed()


def listen(directory: Path, name: str) -> socket.socket:
    """The socket that an agent is to listen on."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(directory) as short:
            listener.bind(f"{short}/{name}")
        listener.listen(BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


async def connect(directory: Path, name: str) -> SocketChannel:
    """The kernel takes the connection even before the agent looks at it. OSError if nobody ever will."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        with _short(directory) as short:
            connection.connect(f"{short}/{name}")
        return SocketChannel(*await asyncio.open_unix_connection(sock=connection, limit=READ_SIZE))
    except BaseException:
        connection.close()
        raise


@contextmanager
def _short(directory: Path) -> Iterator[str]:
    """A short name for a directory: a unix socket's path has room for 107 bytes."""
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
