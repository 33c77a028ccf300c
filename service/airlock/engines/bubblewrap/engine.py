"""The bubblewrap engine. A sandbox is a bwrap with a record on disk, and needs no daemon.

Theory of operation. A sandbox must outlive the service that made it and be found by the next one, so nothing
that matters is held in memory or in a descriptor of the service. bwrap runs in a session of its own. The
agent has the *listening* end of its channel, to which whoever may enter the record's directory can connect.
The record names the processes (by pid and start time) and the control groups that make up the sandbox; it is
written before any of them exists, and removed after the last is gone.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import ParamSpec, TypeVar

from airlock.engines.bubblewrap import channel
from airlock.engines.bubblewrap.channel import SocketChannel
from airlock.engines.bubblewrap.ground import Ground, prepare
from airlock.engines.bubblewrap.layout import PROBE
from airlock.engines.bubblewrap.records import SOCKET, Records, not_found
from airlock.engines.bubblewrap.report import engine_report
from airlock.engines.bubblewrap.sandbox import clean, end, look_at, start
from airlock.engines.bubblewrap.watch import Watch
from airlock.errors import Conflict, EngineUnavailable, SandboxFailed, SandboxNotFound
from airlock.model import EngineReport, SandboxInfo, SandboxSpec
from airlock.settings import Settings

THREADS = 16

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


class BubblewrapEngine:
    name = "bubblewrap"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._records = Records(settings.data_dir / "sandboxes", settings.instance)
        self._watch = Watch()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="bubblewrap")
        self._preparing = asyncio.Lock()
        self._ground: Ground | None = None
        self._report: EngineReport | None = None

    async def create(self, spec: SandboxSpec) -> SandboxInfo:
        ground = await self._ready()
        making = asyncio.create_task(self._make(ground, spec))
        try:
            return await _outlast(making)
        except asyncio.CancelledError:
            if making.exception() is None:
                await _outlast(asyncio.create_task(self._undo(spec.id)))
            raise

    async def get(self, sandbox_id: str) -> SandboxInfo:
        record = await self._in_thread(self._records.read, sandbox_id)
        return await self._in_thread(look_at, record)

    async def list(self) -> list[SandboxInfo]:
        return await self._in_thread(lambda: [look_at(record) for record in self._records.all()])

    async def destroy(self, sandbox_id: str) -> None:
        try:
            record = await self._in_thread(self._records.read, sandbox_id)
        except SandboxNotFound:
            return
        try:
            await end(record)
            await self._in_thread(clean, self._records, record)
        except OSError as error:
            message = f"the sandbox {sandbox_id} could not be destroyed: {error!r}"
            raise EngineUnavailable(message, retry_after=1) from error

    async def connect(self, sandbox_id: str) -> SocketChannel:
        await self._in_thread(self._records.read, sandbox_id)
        try:
            return await channel.connect(self._records.directory(sandbox_id), SOCKET)
        except FileNotFoundError as error:
            raise not_found(sandbox_id) from error
        except BlockingIOError as error:
            raise EngineUnavailable("the sandbox's agent takes no connections", retry_after=1) from error
        except OSError as error:
            raise SandboxFailed(f"the sandbox {sandbox_id} has ended") from error

    async def check(self) -> EngineReport:
        ground = await self._ready()
        if self._report is None:
            await self._in_thread(ground.host.run, PROBE, ground.root)
            self._report = engine_report(ground.host.version, ground.cgroups, ground.host.uid)
        return self._report

    async def aclose(self) -> None:
        self._watch.close()
        await asyncio.to_thread(self._threads.shutdown)
        if self._ground is not None:
            self._ground.close()
            self._ground = None

    async def _ready(self) -> Ground:
        async with self._preparing:
            if self._ground is not None:
                return self._ground
            return await _outlast(asyncio.create_task(self._prepare()))

    async def _prepare(self) -> Ground:
        self._ground = await self._in_thread(prepare, self._settings)
        return self._ground

    async def _make(self, ground: Ground, spec: SandboxSpec) -> SandboxInfo:
        """Make it, or nothing at all. Never cancelled."""
        try:
            started = await self._in_thread(start, ground, self._records, spec)
        except Conflict:
            raise  # it is another's
        except Exception as error:
            await self._undo(spec.id)
            if isinstance(error, OSError):
                raise SandboxFailed(f"the sandbox could not be made: {error}") from error
            raise
        info, process = started
        self._watch.add(spec.id, process)
        return info

    async def _undo(self, sandbox_id: str) -> None:
        try:
            await self.destroy(sandbox_id)
        except EngineUnavailable as error:
            log.warning("sandbox %s may be left behind: %s", sandbox_id, error)

    async def _in_thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        call = partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)


async def _outlast(task: asyncio.Task[T]) -> T:
    """Wait for its end even when cancelled, and only then be so: what a thread does can't be broken off."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        raise
