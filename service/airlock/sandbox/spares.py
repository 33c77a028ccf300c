"""Warm sandboxes that nobody has used yet, so that a run need not wait for one to be made.

One task makes them, one after the other: a refill never takes more than one sandbox's worth of processor from
the programs that run. Taking one never waits. How many are kept follows the demand of the last seconds.
"""

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress

from airlock.sandbox.sandboxes import Sandbox

MEMORY_SECONDS = 10.0
"""How far back demand is remembered."""
LIFETIME_SECONDS = 3600.0
"""An older spare is replaced, before the deadline that it was made with."""
BACKOFF_SECONDS = 2.0

logger = logging.getLogger(__name__)


class Demand:
    """How often a spare was wanted of late, and so how many should be waiting."""

    def __init__(self, least: int, most: int) -> None:
        self._least = least
        self._most = max(least, most)
        self._wanted: deque[float] = deque(maxlen=1000)

    def note(self, now: float) -> None:
        self._wanted.append(now)

    def target(self, now: float, refill_seconds: float) -> int:
        """Beyond the least, enough for twice the demand that comes while one spare is made."""
        while self._wanted and self._wanted[0] < now - MEMORY_SECONDS:
            self._wanted.popleft()
        rate = len(self._wanted) / MEMORY_SECONDS
        return min(self._most, self._least + math.ceil(2 * rate * refill_seconds))


class Spares:
    """`make` makes one; `discard` ends one, in the background."""

    def __init__(
        self,
        make: Callable[[], Awaitable[Sandbox]],
        discard: Callable[[Sandbox], None],
        demand: Demand,
    ) -> None:
        self._make = make
        self._discard = discard
        self._demand = demand
        self._waiting: deque[tuple[float, Sandbox]] = deque()
        self._taken = asyncio.Event()
        self._refilling: asyncio.Task[None] | None = None
        self.hits = 0
        self.misses = 0
        self.refill_seconds = 0.0
        """What it took to make the last one."""

    def __len__(self) -> int:
        return len(self._waiting)

    def start(self) -> None:
        self._refilling = asyncio.create_task(self._refill(), name="refill")

    async def aclose(self) -> None:
        if self._refilling is not None:
            self._refilling.cancel()
            await asyncio.wait([self._refilling])
        while self._waiting:
            self._discard(self._waiting.popleft()[1])

    def take(self) -> Sandbox | None:
        """The oldest whose agent still speaks; None if there is none."""
        self._demand.note(time.monotonic())
        self._taken.set()
        while self._waiting:
            _, sandbox = self._waiting.popleft()
            if sandbox.is_alive:
                self.hits += 1
                return sandbox
            self._discard(sandbox)
        self.misses += 1
        return None

    async def _refill(self) -> None:
        while True:
            self._taken.clear()
            wanted = self._demand.target(time.monotonic(), self.refill_seconds)
            self._retire(wanted)
            if len(self._waiting) < wanted:
                await self._add()
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(MEMORY_SECONDS):
                        await self._taken.wait()

    async def _add(self) -> None:
        started = time.monotonic()
        try:
            sandbox = await self._make()
        except Exception as error:  # this task must not end while the service lives
            logger.warning("no spare sandbox could be made: %r", error)
            await asyncio.sleep(BACKOFF_SECONDS)
            return
        now = time.monotonic()
        self._waiting.append((now, sandbox))
        self.refill_seconds = now - started

    def _retire(self, wanted: int) -> None:
        """Let go of those that are dead, too old, or too many."""
        oldest = time.monotonic() - LIFETIME_SECONDS
        waiting, self._waiting = self._waiting, deque()
        for made, sandbox in waiting:
            if sandbox.is_alive and made > oldest and len(self._waiting) < wanted:
                self._waiting.append((made, sandbox))
            else:
                self._discard(sandbox)
