"""The one codec of the channel between service and agent.

A frame is two 32-bit lengths (big-endian), a JSON header of the first length, raw bytes of the second.
Both sides import this module, so there is nothing to keep in step.
"""

from __future__ import annotations

import json
import struct
from collections import namedtuple

TYPE_CHECKING = False  # the agent starts with every sandbox, and `typing` takes 2 ms
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

PREFIX = struct.Struct(">II")
MAX_HEADER = 4 << 20
MAX_BODY = 64 << 20
"""What an agent takes from its service, which has bounded every request already."""

MAX_EVENT_HEADER = 16 << 10
MAX_EVENT_BODY = 64 << 10
"""What a service takes from an agent, of which it trusts nothing."""


class FrameError(ValueError):
    """The peer does not keep to the protocol. The channel is of no more use."""


Frame = namedtuple("Frame", ("header", "body"))


def encode(header: dict[str, Any], body: bytes = b"") -> bytes:
    text = json.dumps(header, separators=(",", ":")).encode()
    return PREFIX.pack(len(text), len(body)) + text + body


class Decoder:
    """Turns arriving bytes into frames; holds at most one frame and what one read brought beyond it."""

    def __init__(self, max_header: int, max_body: int) -> None:
        self._max_header = max_header
        self._max_body = max_body
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        self._buffer += data
        while len(self._buffer) >= PREFIX.size:
            header_length, body_length = PREFIX.unpack_from(self._buffer)
            if header_length > self._max_header or body_length > self._max_body:
                raise FrameError(f"frame of {header_length} + {body_length} bytes is over the limit")
            start = PREFIX.size + header_length
            end = start + body_length
            if len(self._buffer) < end:
                return
            header = self._parse(bytes(self._buffer[PREFIX.size : start]))
            body = bytes(self._buffer[start:end])
            del self._buffer[:end]
            yield Frame(header, body)

    @staticmethod
    def _parse(text: bytes) -> dict[str, Any]:
        try:
            header = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise FrameError("frame header is not JSON") from error
        if not isinstance(header, dict):
            raise FrameError("frame header is not an object")
        return header
