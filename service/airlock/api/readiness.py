"""Whether the engine works, asked in a bounded way: anybody may ask us, and asking the engine costs."""

import asyncio
import time

from airlock.engine import Engine
from airlock.errors import AirlockError, EngineUnavailable
from airlock.model import EngineReport

CHECK_SECONDS = 5.0
FRESH_SECONDS = 1.0


class EngineCheck:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._asking = asyncio.Lock()
        self._asked_at = -FRESH_SECONDS
        self._outcome: EngineReport | AirlockError

    async def outcome(self) -> EngineReport | AirlockError:
        """The engine's report, or the error that it gave; never older than a second."""
        async with self._asking:
            if time.monotonic() - self._asked_at >= FRESH_SECONDS:
                self._outcome = await self._ask()
                self._asked_at = time.monotonic()
            return self._outcome

    async def _ask(self) -> EngineReport | AirlockError:
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                return await self._engine.check()
        except TimeoutError:
            return EngineUnavailable(f"The engine did not answer within {CHECK_SECONDS:g} s.")
        except AirlockError as error:
            return error
