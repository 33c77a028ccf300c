"""Makes sandboxes that can be spoken to, and destroys them behind everybody's back."""

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tenacity import (
    AsyncRetrying,
    retry_if_exception_type,
    retry_if_result,
    stop_after_attempt,
    wait_exponential,
    wait_fixed,
)

from airlock.engine import Engine
from airlock.errors import AirlockError, EngineError, SandboxFailed, SandboxNotFound
from airlock.model import SandboxInfo, SandboxSpec, SandboxState
from airlock.sandbox.link import AgentLink

HELLO_SECONDS = 30
FAREWELL_SECONDS = 10
AUTOPSY_SECONDS = 2
SWEEP_SECONDS = 30

_AFTER_ITS_END = AsyncRetrying(
    retry=retry_if_result(lambda info: info.state is SandboxState.RUNNING), wait=wait_fixed(0.1)
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A sandbox that is up, with a link to its agent."""

    id: str
    link: AgentLink

    @property
    def is_alive(self) -> bool:
        return self.link.is_open


class Sandboxes:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._states: Counter[str] = Counter()
        self._farewells: set[asyncio.Task[None]] = set()
        self._leaving: set[str] = set()
        self._sweeping: asyncio.Task[None] | None = None

    @property
    def engine_name(self) -> str:
        return self._engine.name

    @property
    def starting(self) -> int:
        return self._states["starting"]

    @property
    def ending(self) -> int:
        return self._states["ending"]

    async def start(self) -> None:
        """Destroy what an earlier life of this service has left, whose callers are gone; then keep clean."""
        await self._sweep(everything=True)
        self._sweeping = asyncio.create_task(self._keep_clean(), name="sweep")

    async def _keep_clean(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await self._sweep(everything=False)

    async def _sweep(self, *, everything: bool) -> None:
        """What is past its time, and still there because the engine was away when it was to be destroyed."""
        now = datetime.now(UTC)
        try:
            async with asyncio.timeout(SWEEP_SECONDS):
                for info in await self._engine.list():
                    if everything or (info.expires_at is not None and info.expires_at < now):
                        self._in_background(self._destroy(info.id))
        except (EngineError, TimeoutError) as error:
            logger.warning("the engine does not answer: %r", error)

    async def aclose(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.wait([self._sweeping])
        if self._farewells:
            _, late = await asyncio.wait(self._farewells, timeout=FAREWELL_SECONDS)
            for task in late:
                task.cancel()

    async def make(self, spec: SandboxSpec) -> Sandbox:
        with self._counted("starting"):
            await self._engine.create(spec)
            try:
                return Sandbox(spec.id, await self._greet(spec.id))
            except BaseException:
                self._in_background(self._destroy(spec.id))
                raise

    def discard(self, sandbox: Sandbox, *, abruptly: bool = False) -> None:
        """Destroy it in the background; unless abruptly, its agent may clean up after a program first."""
        if sandbox.id not in self._leaving:
            self._leaving.add(sandbox.id)
            self._in_background(self._part_with(sandbox, abruptly))

    async def autopsy(self, sandbox_id: str) -> SandboxInfo | None:
        """What the engine says of a sandbox whose link was lost; None if it does not know, either."""
        try:
            async with asyncio.timeout(AUTOPSY_SECONDS):
                # The channel may end a moment before the engine notices.
                return await _AFTER_ITS_END.wraps(self._engine.get)(sandbox_id)
        except (TimeoutError, AirlockError):
            return None

    async def _greet(self, sandbox_id: str) -> AgentLink:
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                return await AgentLink.open(await self._engine.connect(sandbox_id))
        except TimeoutError:
            raise SandboxFailed(f"the agent did not answer within {HELLO_SECONDS} s") from None
        except SandboxNotFound:
            raise SandboxFailed("the sandbox ended while it was starting") from None

    async def _part_with(self, sandbox: Sandbox, abruptly: bool) -> None:
        try:
            if not abruptly:
                await sandbox.link.end_programs()
            await sandbox.link.aclose()
        finally:
            await self._destroy(sandbox.id)
            self._leaving.discard(sandbox.id)

    async def _destroy(self, sandbox_id: str) -> None:
        attempts = AsyncRetrying(
            retry=retry_if_exception_type(AirlockError),
            wait=wait_exponential(multiplier=0.2, max=30),
            stop=stop_after_attempt(20),
            reraise=True,
        )
        with self._counted("ending"):
            try:
                async for attempt in attempts:
                    with attempt:
                        await self._engine.destroy(sandbox_id)
            except AirlockError as error:
                logger.error("sandbox %s is left for the next start to destroy: %s", sandbox_id, error)

    def _in_background(self, farewell: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(farewell)
        self._farewells.add(task)
        task.add_done_callback(self._farewells.discard)

    @contextmanager
    def _counted(self, state: str) -> Iterator[None]:
        self._states[state] += 1
        try:
            yield
        finally:
            self._states[state] -= 1
