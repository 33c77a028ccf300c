"""Who may start a run now. Nobody queues: a full service says so at once."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from airlock.errors import TooManyRuns

RETRY_AFTER_SECONDS = 1.0


class Admission:
    def __init__(self, max_runs: int, max_runs_per_tenant: int) -> None:
        self._max_runs = max_runs
        self._max_per_tenant = max_runs_per_tenant
        self._running: Counter[str] = Counter()

    @contextmanager
    def admit(self, tenant: str) -> Iterator[None]:
        if self._running[tenant] >= self._max_per_tenant:
            raise self._refusal(f"tenant {tenant} has {self._max_per_tenant} runs under way, its limit")
        if self._running.total() >= self._max_runs:
            raise self._refusal(f"the service has {self._max_runs} runs under way, its limit")
        self._running[tenant] += 1
        try:
            yield
        finally:
            self._running[tenant] -= 1
            if not self._running[tenant]:
                del self._running[tenant]

    @staticmethod
    def _refusal(reason: str) -> TooManyRuns:
        return TooManyRuns(f"{reason}: try again shortly", retry_after=RETRY_AFTER_SECONDS)
