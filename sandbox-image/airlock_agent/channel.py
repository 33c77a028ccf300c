"""The agent's end of the channel: frames in, frames out, never waiting on a slow service."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from selectors import EVENT_READ, EVENT_WRITE, BaseSelector

from airlock_agent.frames import MAX_BODY, MAX_HEADER, Decoder, Frame

_READ_SIZE = 1 << 18


class ServiceGone(Exception):
    """The channel has ended and can't come back."""


class Channel:
    """Over stdio, or over the newest connection to a listening socket; PROTOCOL.md says which.

    What is sent is queued while the service is slow. The queue is bounded by what a program may print.
    """

    def __init__(self, kind: str, selector: BaseSelector, on_frame: Callable[[Frame], None]) -> None:
        self._selector = selector
        self._on_frame = on_frame
        self._reader = self._writer = -1
        self._listener = -1
        if kind == "stdio":
            self._reader, self._writer = _take_stdio()
            self._open()
        else:
            self._listener = int(kind.partition(":")[2])
            os.set_inheritable(self._listener, False)
            selector.register(self._listener, EVENT_READ, self._accept)

    def send(self, data: bytes) -> None:
        if self._writer >= 0:
            self._queue += data
            self._flush()

    def _open(self) -> None:
        self._decoder = Decoder(MAX_HEADER, MAX_BODY)
        self._queue = bytearray()
        self._waiting = False
        self._selector.register(self._reader, EVENT_READ, self._receive)

    def _accept(self, _mask: int) -> None:
        listener = socket.socket(fileno=self._listener)
        connection, _ = listener.accept()
        listener.detach()  # no object may own a descriptor: it would close it in a child, long after the fork
        connection.setblocking(False)
        self._close()
        self._reader = connection.detach()
        self._writer = os.dup(self._reader)  # one descriptor each way, as over stdio
        self._open()

    def _receive(self, _mask: int) -> None:
        try:
            data = os.read(self._reader, _READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            for frame in self._decoder.feed(data):
                self._on_frame(frame)
        elif self._listener < 0:
            raise ServiceGone
        else:
            self._close()

    def _flush(self, _mask: int = EVENT_WRITE) -> None:
        try:
            while self._queue:
                del self._queue[: os.write(self._writer, self._queue)]
        except BlockingIOError:
            pass
        except OSError:
            self._queue.clear()  # whoever was to read it is gone; the reading side will tell
        if bool(self._queue) != self._waiting:
            self._waiting = not self._waiting
            if self._waiting:
                self._selector.register(self._writer, EVENT_WRITE, self._flush)
            else:
                self._selector.unregister(self._writer)

    def _close(self) -> None:
        if self._reader < 0:
            return
        self._selector.unregister(self._reader)
        if self._waiting:
            self._selector.unregister(self._writer)
        os.close(self._reader)
        os.close(self._writer)
        self._reader = self._writer = -1


def _take_stdio() -> tuple[int, int]:
    """Move the channel away from 0 and 1, where programs will have their own."""
    reader, writer = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    for descriptor in (reader, writer):
        os.set_blocking(descriptor, False)
    return reader, writer
