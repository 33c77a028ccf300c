"""The Docker engine. Sandboxes are containers, and their labels are all that is kept about them."""

import asyncio
import logging
import os
import re
from contextlib import suppress
from importlib.resources import files

from airlock.engines.docker import labels
from airlock.engines.docker.channel import DockerChannel
from airlock.engines.docker.creation import image_missing, make
from airlock.engines.docker.daemon import TIMEOUT, Daemon
from airlock.engines.docker.host import docker_host
from airlock.engines.docker.report import engine_report
from airlock.engines.docker.spec import container_name
from airlock.errors import Conflict, EngineError, NotFound, SandboxFailed, SandboxNotFound
from airlock.model import EngineReport, SandboxInfo, SandboxSpec, SandboxState
from airlock.settings import Settings

SANDBOX_ID = re.compile(r"[a-z0-9_]{1,64}")
"""No dash, so that no other instance's container has the name; no slash, so that it is no other URL."""
UNDO_TIMEOUT = 90
"""Longer than a create and a start that both run into the daemon's own timeout."""

log = logging.getLogger(__name__)


class DockerEngine:
    name = "docker"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._seccomp = files("airlock.engines").joinpath("seccomp.json").read_text()
        self._daemon = Daemon(docker_host(settings.docker_host, os.environ))
        self._undoing: set[asyncio.Task[None]] = set()

    async def create(self, spec: SandboxSpec) -> SandboxInfo:
        self._container(spec.id)
        making = asyncio.create_task(make(self._daemon, self._settings, self._seccomp, spec))
        try:
            return await asyncio.shield(making)
        except BaseException:
            # It goes on by itself if this is cancelled again; `aclose` waits for it.
            undoing = asyncio.create_task(self._undo(making, spec.id))
            self._undoing.add(undoing)
            undoing.add_done_callback(self._undoing.discard)
            await asyncio.shield(undoing)
            raise

    async def get(self, sandbox_id: str) -> SandboxInfo:
        name = self._container(sandbox_id)
        try:
            return await self._daemon.call(lambda api: labels.info_from_inspect(api.inspect_container(name)))
        except NotFound as error:
            raise _not_found(sandbox_id) from error

    async def list(self) -> list[SandboxInfo]:
        wanted = labels.filters(self._settings.instance)
        return await self._daemon.call(
            lambda api: [labels.info_from_list(each) for each in api.containers(all=True, filters=wanted)]
        )

    async def destroy(self, sandbox_id: str) -> None:
        try:
            name = self._container(sandbox_id)
            # `v` takes the volumes that have no name; a workspace has one.
            await self._daemon.call(lambda api: api.remove_container(name, v=True, force=True))
        except NotFound:
            return
        except Conflict:  # it is being removed already
            with suppress(NotFound):
                await self._daemon.call(lambda api: api.wait(name, timeout=TIMEOUT, condition="removed"))

    async def connect(self, sandbox_id: str) -> DockerChannel:
        channel = await self._daemon.attach(self._container(sandbox_id))
        try:
            # Attached to a container that has ended, one would wait for ever for its next start.
            if (await self.get(sandbox_id)).state is not SandboxState.RUNNING:
                raise SandboxFailed(f"the sandbox {sandbox_id} has ended")
        except BaseException:
            await channel.aclose()
            raise
        return channel

    async def check(self) -> EngineReport:
        image, runtime = self._settings.docker_image, self._settings.docker_runtime
        report = await self._daemon.call(lambda api: engine_report(api.info(), runtime))
        try:
            await self._daemon.call(lambda api: api.inspect_image(image))  # type: ignore[no-untyped-call]
        except NotFound as error:
            raise image_missing(image) from error
        return report

    async def aclose(self) -> None:
        if self._undoing:
            await asyncio.wait(self._undoing)
        await self._daemon.aclose()

    async def _undo(self, making: asyncio.Task[SandboxInfo], sandbox_id: str) -> None:
        """Remove what `making` made. The call that it waits for can't be cancelled, only waited for."""
        done, _ = await asyncio.wait({making}, timeout=UNDO_TIMEOUT)
        if done and not making.cancelled() and isinstance(making.exception(), Conflict):
            return
        try:
            await self.destroy(sandbox_id)
        except EngineError as error:
            log.warning("sandbox %s may be left behind: %s", sandbox_id, error)

    def _container(self, sandbox_id: str) -> str:
        if not SANDBOX_ID.fullmatch(sandbox_id):
            raise _not_found(sandbox_id)
        return container_name(self._settings.instance, sandbox_id)


def _not_found(sandbox_id: str) -> SandboxNotFound:
    return SandboxNotFound(f"there is no sandbox {sandbox_id!r}")
