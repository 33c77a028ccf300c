"""Running programs on a real engine, without HTTP between."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from airlock.engine import Engine
from airlock.model import Code, Command, Limits, Owner, RunFinished, RunOutput, RunRequest
from airlock.sandbox.pool import Pool
from airlock.sandbox.runs import Runs
from airlock.settings import Settings

MIB = 1 << 20
OWNER = Owner("acme")
LIMITS = {"cpus": 1.0, "memory_bytes": 256 * MIB, "pids": 64, "tmp_bytes": 32 * MIB, "output_bytes": MIB}


@dataclass(frozen=True)
class Outcome:
    stdout: bytes
    stderr: bytes
    end: RunFinished

    @property
    def verdict(self) -> tuple[str, int | None, str | None]:
        return self.end.status.value, self.end.exit_code, self.end.signal


class Runner:
    """Runs one program after the other, each in a sandbox of its own."""

    def __init__(self, runs: Runs, pool: Pool) -> None:
        self.runs = runs
        self._pool = pool

    async def settle(self) -> None:
        """Until what has ended is gone."""
        async with asyncio.timeout(20):
            while self._pool.report().ending:
                await asyncio.sleep(0.01)

    async def python(self, code: str, **options: Any) -> Outcome:
        return await self.run(Code("python", code.encode()), **options)

    async def shell(self, command: str, **options: Any) -> Outcome:
        return await self.run(Command(["/bin/sh", "-lc", command]), **options)

    async def run(self, program: Code | Command, owner: Owner = OWNER, **options: Any) -> Outcome:
        request = self.request(program, **options)
        output = {"stdout": bytearray(), "stderr": bytearray()}
        async with aclosing(self.runs.events(owner, request)) as events:
            async for event in events:
                if isinstance(event, RunOutput):
                    output[event.stream] += event.data
        assert isinstance(event, RunFinished)
        return Outcome(bytes(output["stdout"]), bytes(output["stderr"]), event)

    @staticmethod
    def request(program: Code | Command, **options: Any) -> RunRequest:
        limits = Limits(**{**LIMITS, **options.pop("limits", {})})
        return RunRequest(program=program, limits=limits, **{"timeout": 30.0, **options})


@asynccontextmanager
async def runner_on(engine: Engine, **settings: Any) -> AsyncIterator[Runner]:
    made = Settings(**settings)
    pool = Pool(engine, made)
    try:
        yield Runner(Runs(pool, made), pool)
    finally:
        await pool.aclose()
