"""Where a run gets its sandbox from, and where the sandbox goes afterwards.

Today every lease is a new sandbox, and the end of a lease is the end of the sandbox. Callers know only
`lease`, so warm sandboxes fit in here without a change elsewhere.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

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

logger = logging.getLogger(__name__)

HELLO_SECONDS = 30
FAREWELL_SECONDS = 10


_AFTER_ITS_END = AsyncRetrying(
    retry=retry_if_result(lambda info: info.state is SandboxState.RUNNING), wait=wait_fixed(0.1)
)


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A sandbox that is up, with an open link to its agent."""

    id: str
    link: AgentLink


class Pool:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._states: Counter[str] = Counter()
        self._farewells: set[asyncio.Task[None]] = set()

    @property
    def engine_name(self) -> str:
        return self._engine.name

    async def start(self) -> None:
        """Destroy what an earlier life of this service has left: its callers are gone."""
        try:
            for info in await self._engine.list():
                self._destroy_later(info.id)
        except EngineError as error:
            logger.warning("the engine does not answer yet: %s", error)

    async def aclose(self) -> None:
        if self._farewells:
            _, late = await asyncio.wait(self._farewells, timeout=FAREWELL_SECONDS)
            for task in late:
                task.cancel()

    def counts(self) -> dict[str, int]:
        """How many sandboxes are in each state."""
        return {state: self._states[state] for state in ("starting", "running", "ending")}

    @asynccontextmanager
    async def lease(self, spec: SandboxSpec) -> AsyncIterator[Sandbox]:
        """A sandbox for as long as the block runs. It is destroyed behind the caller's back."""
        with self._counted("starting"):
            await self._engine.create(spec)
            try:
                link = await self._greet(spec.id)
            except BaseException:
                self._destroy_later(spec.id)
                raise
        try:
            with self._counted("running"):
                yield Sandbox(spec.id, link)
        finally:
            self._destroy_later(spec.id)
            await link.aclose()

    async def autopsy(self, sandbox_id: str) -> SandboxInfo | None:
        """What the engine says of a sandbox whose link was lost; None if it does not know, either."""
        try:
            async with asyncio.timeout(2):
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

    def _destroy_later(self, sandbox_id: str) -> None:
        task = asyncio.create_task(self._destroy(sandbox_id), name=f"destroy-{sandbox_id}")
        self._farewells.add(task)
        task.add_done_callback(self._farewells.discard)

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

    def _counted(self, state: str) -> "_Counted":
        return _Counted(self._states, state)


class _Counted:
    """Counts a sandbox in a state while a block runs."""

    def __init__(self, states: Counter[str], state: str) -> None:
        self._states = states
        self._state = state

    def __enter__(self) -> None:
        self._states[self._state] += 1

    def __exit__(self, *_: object) -> None:
        self._states[self._state] -= 1
