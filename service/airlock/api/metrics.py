"""What Prometheus reads at /metrics."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from airlock.errors import EngineError
from airlock.model import Code, RunRequest, RunStarted
from airlock.sandbox.pool import PoolReport
from airlock.tools.run_answer import RunAnswer, TextEvent

SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self._runs = Counter(
            "airlock_runs", "Runs, by how they ended.", ["tool", "language", "status"], registry=registry
        )
        self._run_seconds = Histogram(
            "airlock_run_duration_seconds",
            "Time from a program's start to its end.",
            ["tool", "language"],
            buckets=SECONDS,
            registry=registry,
        )
        self._engine_errors = Counter(
            "airlock_engine_errors", "Calls that failed because of the engine.", ["code"], registry=registry
        )
        self._sandboxes = Gauge("airlock_sandboxes", "Sandboxes, by state.", ["state"], registry=registry)
        self._claims = Gauge(
            "airlock_pool_claims_total", "Runs that wanted a warm sandbox.", ["outcome"], registry=registry
        )
        self._refill_seconds = Gauge(
            "airlock_pool_refill_seconds", "What it took to make the last warm sandbox.", registry=registry
        )
        self._requests = Counter(
            "airlock_http_requests", "HTTP requests.", ["method", "route", "status"], registry=registry
        )
        self._request_seconds = Histogram(
            "airlock_http_request_duration_seconds",
            "Time from a request's head to the end of its answer.",
            ["method", "route"],
            buckets=SECONDS,
            registry=registry,
        )

    async def watched(
        self, tool: str, request: RunRequest, events: AsyncGenerator[TextEvent, None]
    ) -> AsyncGenerator[TextEvent, None]:
        """The events of a run, counted as they pass."""
        language = request.program.language if isinstance(request.program, Code) else ""
        status = None
        try:
            async with aclosing(events):
                async for event in events:
                    if isinstance(event, RunStarted):
                        status = "cancelled"  # unless we hear more
                    elif isinstance(event, RunAnswer):
                        status = event.status
                        self._run_seconds.labels(tool, language).observe(event.duration_ms / 1000)
                    yield event
        except Exception as error:  # counted, whatever it is, and raised again
            if isinstance(error, EngineError):
                self._engine_errors.labels(error.code).inc()
            status = status and "error"
            raise
        finally:
            if status is not None:
                self._runs.labels(tool, language, status).inc()

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).inc()
        self._request_seconds.labels(method, route).observe(seconds)

    def render(self, pool: PoolReport) -> bytes:
        for state in ("spare", "starting", "running", "ending"):
            self._sandboxes.labels(state).set(getattr(pool, state))
        self._claims.labels("hit").set(pool.hits)
        self._claims.labels("miss").set(pool.misses)
        self._refill_seconds.set(pool.refill_seconds)
        return generate_latest(self._registry)
