"""The requests under way, so that what they use is closed after them and not before."""

import asyncio
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

CLEAN_UP_SECONDS = 5

Tasks = set[asyncio.Task[Any] | None]


class InFlight:
    """Keeps `tasks`, which belongs to whoever will wait for them."""

    def __init__(self, app: ASGIApp, tasks: Tasks) -> None:
        self._app = app
        self._tasks = tasks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            await self._app(scope, receive, send)
        finally:
            self._tasks.discard(task)


async def ended(tasks: Tasks) -> None:
    """A server that stops cancels its requests and does not wait for them to clean up. This does."""
    if running := [task for task in tasks if task is not None]:
        await asyncio.wait(running, timeout=CLEAN_UP_SECONDS)
