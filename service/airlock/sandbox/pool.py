"""Where a run gets its sandbox from, and where the sandbox goes afterwards.

A run with the default limits and no workspace takes a warm sandbox, if there is one; any other has one made
for it. At the end of a lease the sandbox is destroyed: nobody is given what another has used.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from airlock.engine import Engine
from airlock.model import Limits, Owner, SandboxInfo, SandboxSpec, new_id
from airlock.sandbox.sandboxes import Sandbox, Sandboxes
from airlock.sandbox.spares import LIFETIME_SECONDS, Demand, Spares
from airlock.settings import MIB, Settings

NOBODY = Owner("")
"""Whose a spare is in the engine's records, until it has served and is gone."""


@dataclass(frozen=True, slots=True)
class PoolReport:
    """How many sandboxes are in each state, and how well the spares serve."""

    spare: int
    starting: int
    running: int
    ending: int
    hits: int
    misses: int
    refill_seconds: float


class Pool:
    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._sandboxes = Sandboxes(engine)
        self._limits = default_limits(settings)
        self._running = 0
        demand = Demand(settings.pool_min, settings.pool_max)
        # Past its lifetime a spare may still serve one run of the longest kind.
        self._spare_life = timedelta(seconds=LIFETIME_SECONDS + 2 * settings.max_timeout)
        self._spares = Spares(self._make_spare, self._sandboxes.discard, demand)

    @property
    def engine_name(self) -> str:
        return self._sandboxes.engine_name

    async def start(self) -> None:
        await self._sandboxes.start()
        self._spares.start()

    async def aclose(self) -> None:
        await self._spares.aclose()
        await self._sandboxes.aclose()

    def report(self) -> PoolReport:
        return PoolReport(
            spare=len(self._spares),
            starting=self._sandboxes.starting,
            running=self._running,
            ending=self._sandboxes.ending,
            hits=self._spares.hits,
            misses=self._spares.misses,
            refill_seconds=round(self._spares.refill_seconds, 4),
        )

    @asynccontextmanager
    async def lease(self, spec: SandboxSpec) -> AsyncIterator[Sandbox]:
        """A sandbox for as long as the block runs; never used before, and never again."""
        spare = self._spares.take() if self._is_common(spec) else None
        sandbox = spare or await self._sandboxes.make(spec)
        self._running += 1
        try:
            yield sandbox
        finally:
            self._running -= 1
            self._sandboxes.discard(sandbox)

    def destroy(self, sandbox: Sandbox) -> None:
        """At once, and not only at the end of the lease."""
        self._sandboxes.discard(sandbox, abruptly=True)

    async def autopsy(self, sandbox_id: str) -> SandboxInfo | None:
        return await self._sandboxes.autopsy(sandbox_id)

    def _is_common(self, spec: SandboxSpec) -> bool:
        # The limit on output is the run's, not the sandbox's.
        limits = replace(spec.limits, output_bytes=self._limits.output_bytes)
        return limits == self._limits and spec.workspace is None and spec.image is None

    async def _make_spare(self) -> Sandbox:
        expires = datetime.now(UTC) + self._spare_life
        return await self._sandboxes.make(SandboxSpec(new_id("sb"), NOBODY, self._limits, expires_at=expires))


def default_limits(settings: Settings) -> Limits:
    """What a run gets if it does not ask; never more than it could ask for."""
    s = settings
    return Limits(
        cpus=min(s.default_cpus, s.max_cpus),
        memory_bytes=min(s.default_memory_mb, s.max_memory_mb) * MIB,
        pids=min(s.default_pids, s.max_pids),
        tmp_bytes=min(s.default_tmp_mb, s.max_tmp_mb) * MIB,
        output_bytes=min(s.default_output_bytes, s.max_output_bytes),
    )
