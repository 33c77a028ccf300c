"""Every request leaves one line in the log and one count in the metrics."""

import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from airlock.api.metrics import Metrics

CALLER_GONE = 499
"""The status, in the log and the metrics only, of a request whose caller did not wait for the answer."""
PROBES = frozenset({"/healthz", "/readyz", "/metrics"})

logger = logging.getLogger(__name__)


class Access:
    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.monotonic()
        status = CALLER_GONE

        async def watched_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched_send)
        finally:
            self._tell(scope, status, time.monotonic() - started)

    def _tell(self, scope: Scope, status: int, seconds: float) -> None:
        # The route, not the path: what callers make up must not become a label.
        route = getattr(scope.get("route"), "path", "none")
        self._metrics.count_request(scope["method"], route, status, seconds)
        fields = {
            "tenant": scope.get("state", {}).get("tenant"),
            "method": scope["method"],
            "path": scope["path"],
            "status": status,
            "duration_ms": round(seconds * 1000, 3),
        }
        level = logging.DEBUG if scope["path"] in PROBES else logging.INFO
        logger.log(level, "%s %s %s", scope["method"], scope["path"], status, extra={"fields": fields})
