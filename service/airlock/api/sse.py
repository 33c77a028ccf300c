"""Server-sent events: each is sent as soon as it is there."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from airlock.api.disconnect import CallerGone, unless_gone

MEDIA_TYPE = "text/event-stream"
COMMENT_SECONDS = 15
STALLED_SECONDS = 60
"""A reader that takes nothing for so long is gone, whatever its connection says."""


def is_wanted(request: Request) -> bool:
    """Whether the caller's Accept names event streams."""
    for choice in ",".join(request.headers.getlist("accept")).split(","):
        media_type, *parameters = (part.strip().lower() for part in choice.split(";"))
        if media_type == MEDIA_TYPE and not any(_is_zero(parameter) for parameter in parameters):
            return True
    return False


def _is_zero(parameter: str) -> bool:
    """`q=0` means: anything but this."""
    return parameter.startswith("q=") and not parameter.removeprefix("q=").strip("0.")


LINE_BREAKS = {character: f"\\u{ord(character):04x}" for character in "\u0085\u2028\u2029"}
"""Line breaks to Unicode, and to some clients, but neither to JSON nor to the protocol."""


def encode(event: str, data: Any, event_id: int | None = None) -> bytes:
    """JSON has no line breaks of its own, so the data is one line, for every client."""
    line = to_json(data)
    for character, escaped in LINE_BREAKS.items():
        line = line.replace(character.encode(), escaped.encode())
    numbered = b"" if event_id is None else b"id: %d\n" % event_id
    return b"event: %s\n%sdata: %s\n\n" % (event.encode(), numbered, line)


class EventStream(Response):
    """Sends what the generator gives. An error before its first piece is answered like any other."""

    media_type = MEDIA_TYPE

    def __init__(self, pieces: AsyncGenerator[bytes, None]) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await unless_gone(receive, self._stream(send))

    async def _stream(self, send: Send) -> None:
        one_at_a_time = asyncio.Lock()

        async def write(piece: bytes) -> None:
            async with one_at_a_time:
                try:
                    async with asyncio.timeout(STALLED_SECONDS):
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
                except TimeoutError:
                    raise CallerGone from None

        async def comment() -> None:
            while True:
                await asyncio.sleep(COMMENT_SECONDS)
                await write(b": still here\n\n")

        async with aclosing(self._pieces) as pieces:
            first = await anext(pieces)
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            commenting = asyncio.create_task(comment())
            try:
                await write(first)
                async for piece in pieces:
                    await write(piece)
            finally:
                commenting.cancel()
            await send({"type": "http.response.body", "body": b""})
