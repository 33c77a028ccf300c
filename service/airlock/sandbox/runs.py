"""Runs: programs that a caller waits for. One sandbox each, from the first frame to the verdict."""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from airlock.errors import EngineUnavailable, LanguageUnavailable, SandboxFailed, SandboxNotFound
from airlock.model import (
    Code,
    Owner,
    RunEvent,
    RunFinished,
    RunOutput,
    RunRequest,
    RunStarted,
    SandboxSpec,
    SandboxState,
    Status,
    Usage,
    Workspace,
    new_id,
)
from airlock.sandbox.admission import Admission
from airlock.sandbox.link import Exit, LinkLost, Overdue, RemoteProcess
from airlock.sandbox.pool import Pool
from airlock.sandbox.sandboxes import Sandbox
from airlock.settings import Settings

SETUP_SECONDS = 30
OVERTIME_SECONDS = 0.4
"""How long after its last chance to kill a program the agent may still be silent."""


@dataclass(frozen=True, slots=True)
class Verdict:
    status: Status
    exit_code: int | None
    signal: str | None


class Runs:
    def __init__(self, pool: Pool, settings: Settings) -> None:
        self._pool = pool
        self._settings = settings
        self._admission = Admission(settings.max_runs, settings.max_runs_per_tenant)

    async def events(self, owner: Owner, request: RunRequest) -> AsyncGenerator[RunEvent, None]:
        """The run as it happens. Closing the generator, or cancelling it, kills the program."""
        if request.sandbox is not None:
            raise SandboxNotFound(f"there is no sandbox {request.sandbox}")
        with self._admission.admit(owner.tenant):
            async with self._pool.lease(self._spec(owner, request)) as sandbox:
                run_id = new_id("run")
                process, started = await self._start(sandbox, run_id, request)
                with self._deadline(sandbox, process, request.timeout):
                    with suppress(EngineUnavailable):  # the link is lost, and `_watch` will be told why
                        await process.feed(request.stdin)
                    yield RunStarted(run_id, sandbox.id)
                    watching = self._watch(sandbox, run_id, process, started, request)
                    async with aclosing(watching):
                        async for event in watching:
                            yield event

    def _spec(self, owner: Owner, request: RunRequest) -> SandboxSpec:
        # Past this moment nobody can be waiting for it, whatever has become of this service.
        lifetime = SETUP_SECONDS + request.timeout + self._settings.kill_grace + 60
        return SandboxSpec(
            id=new_id("sb"),
            owner=owner,
            limits=request.limits,
            workspace=Workspace(owner, request.workspace) if request.workspace else None,
            expires_at=datetime.now(UTC) + timedelta(seconds=lifetime),
        )

    async def _start(self, sandbox: Sandbox, run_id: str, request: RunRequest) -> tuple[RemoteProcess, float]:
        """The process, and when it was sent off."""
        header: dict[str, Any] = {
            "args": list(request.args),
            "cwd": request.cwd,
            "env": dict(request.env),
            "timeout": request.timeout,
            "grace": self._settings.kill_grace,
            "output": self._output_bounds(request),
        }
        source = b""
        if isinstance(request.program, Code):
            source = request.program.source
            header["language"] = request.program.language
            if request.program.language not in sandbox.link.languages:
                raise LanguageUnavailable(f"{request.program.language} is not installed in the sandbox image")
        else:
            header["argv"] = list(request.program.argv)
        kept = 2 * (header["output"]["head"] + header["output"]["tail"])
        try:
            async with asyncio.timeout(SETUP_SECONDS):
                for path, data in request.files.items():
                    await sandbox.link.write_file(path, data)
                started = time.monotonic()
                return await sandbox.link.start(run_id, header, source, kept), started
        except TimeoutError:
            raise SandboxFailed("the sandbox did not take the program in time") from None

    def _output_bounds(self, request: RunRequest) -> dict[str, int]:
        limit = request.limits.output_bytes
        tail = limit // 2
        head = limit if request.live else limit - tail
        return {"head": head, "tail": tail, "ceiling": self._settings.output_ceiling_bytes}

    async def _watch(
        self, sandbox: Sandbox, run_id: str, process: RemoteProcess, started: float, request: RunRequest
    ) -> AsyncGenerator[RunEvent, None]:
        kept: Counter[str] = Counter()
        while True:
            news = await self._next(sandbox, process)
            if isinstance(news, RunOutput):
                kept[news.stream] += len(news.data)
                yield news
                continue
            end = news if isinstance(news, Exit) else None
            totals = (end.stdout_bytes, end.stderr_bytes) if end else (kept["stdout"], kept["stderr"])
            verdict = judge(news) if isinstance(news, Exit) else news
            yield RunFinished(
                run_id=run_id,
                sandbox=sandbox.id,
                workspace=request.workspace,
                engine=self._pool.engine_name,
                status=verdict.status,
                exit_code=verdict.exit_code,
                signal=verdict.signal,
                stdout_bytes=totals[0],
                stderr_bytes=totals[1],
                truncated=totals[0] > kept["stdout"] or totals[1] > kept["stderr"],
                duration_ms=round((process.last_heard - started) * 1000, 3),
                usage=Usage(end.cpu_ms, end.peak_memory_bytes) if end else None,
            )
            return

    @contextmanager
    def _deadline(self, sandbox: Sandbox, process: RemoteProcess, timeout: float) -> Iterator[None]:
        """Destroys a sandbox that is overdue, whatever its agent says and whether or not anybody reads on."""

        def overdue() -> None:
            process.tell(Overdue("the agent did not keep the deadline"))
            self._pool.destroy(sandbox)

        seconds = timeout + self._settings.kill_grace + OVERTIME_SECONDS
        timer = asyncio.get_running_loop().call_later(seconds, overdue)
        try:
            yield
        finally:
            timer.cancel()

    async def _next(self, sandbox: Sandbox, process: RemoteProcess) -> RunOutput | Exit | Verdict:
        """The next word from the agent; or, if it fails us, what can be said without it."""
        try:
            return await process.next()
        except Overdue:
            return Verdict(Status.TIMED_OUT, 124, "KILL")
        except LinkLost:
            info = await self._pool.autopsy(sandbox.id)
            if info is not None and info.oom_killed:
                return Verdict(Status.OOM_KILLED, 137, "KILL")
            if info is not None and info.state is SandboxState.EXITED:
                return Verdict(Status.KILLED, None, None)
            return Verdict(Status.LOST, None, None)


def judge(end: Exit) -> Verdict:
    """What an agent's last word means to the caller."""
    name = None if end.signal is None else signal_name(end.signal)
    code = end.code if end.signal is None else 128 + end.signal
    match end.reason:
        case None:
            return Verdict(Status.EXITED if name is None else Status.SIGNALED, code, name)
        case "timed_out":
            return Verdict(Status.TIMED_OUT, 124, name)
        case "oom_killed":
            return Verdict(Status.OOM_KILLED, 137, "KILL")
        case reason:
            return Verdict(Status(reason), code, name)


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name.removeprefix("SIG")
    except ValueError:  # the realtime signals between the first and the last have no name
        return str(number)
