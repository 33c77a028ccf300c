"""One id for a request, in the answer, in errors and in every line of the log."""

from contextvars import ContextVar

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from airlock.model import new_id

MAX_CHARACTERS = 128

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)


class RequestIds:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        this = given if is_sane(given, MAX_CHARACTERS) else new_id("req")

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["X-Request-ID"] = this
            await send(message)

        token = request_id.set(this)
        try:
            await self._app(scope, receive, send_with_id)
        finally:
            request_id.reset(token)


def is_sane(text: str, max_characters: int) -> bool:
    """Whether a caller's word can stand in headers, logs and files."""
    return 0 < len(text) <= max_characters and text.isascii() and text.isprintable()
