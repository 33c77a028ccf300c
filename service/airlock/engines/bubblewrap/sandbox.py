"""The life of one sandbox: how it is started, looked at and ended, by its record."""

import asyncio
import os
from datetime import UTC, datetime

from airlock.engines.bubblewrap import cgroups, channel, processes, workspaces
from airlock.engines.bubblewrap.ground import Ground
from airlock.engines.bubblewrap.launch import Started, launch
from airlock.engines.bubblewrap.processes import ProcessKey
from airlock.engines.bubblewrap.records import SOCKET, Record, Records
from airlock.engines.bubblewrap.spec import Descriptors, agent, isolation, mark, rlimits
from airlock.model import SandboxInfo, SandboxSpec, SandboxState

END_TIMEOUT = 10.0


def start(ground: Ground, records: Records, spec: SandboxSpec) -> tuple[SandboxInfo, Started]:
    """Blocking. Conflict comes before anything is made; after another error, the record tells what is."""
    record = Record(
        id=spec.id,
        instance=records.instance,
        owner=spec.owner,
        created_at=datetime.now(UTC),
        workspace=spec.workspace,
        expires_at=spec.expires_at,
        cgroups=tuple(ground.cgroups.paths(spec.id)),
    )
    records.add(record)
    workspace = None
    if spec.workspace is not None:
        workspaces.ensure(ground.workspaces, spec.workspace, ground.host.uid)
        workspace = f"{ground.host.places['workspaces']}/{spec.workspace.key}/{workspaces.FILES}"
    ground.cgroups.make(spec.id, spec.limits)

    def command(descriptors: Descriptors) -> list[str]:
        cgroup = ground.cgroups.bind(spec.id)
        return [
            *ground.host.enter,
            *isolation(ground.root, descriptors.seccomp, spec.limits.tmp_bytes, workspace, cgroup),
            *agent(spec.id, descriptors, rlimits(spec.limits, ground.cgroups.missing)),
        ]

    def limit(init: ProcessKey, monitor: ProcessKey) -> None:
        cgroups.join(record.cgroups, init.pid)
        records.update(record.started(init, monitor))

    seccomp = ground.host.open_seccomp()
    try:
        with channel.listen(records.directory(spec.id), SOCKET) as listener:
            started = launch(command, seccomp, listener.fileno(), limit)
    finally:
        os.close(seccomp)
    return _info(record, SandboxState.RUNNING), started


def look_at(record: Record) -> SandboxInfo:
    """Blocking, a little."""
    if record.init is None:
        return _info(record, SandboxState.CREATED)
    state = SandboxState.RUNNING if processes.is_alive(record.init) else SandboxState.EXITED
    return _info(record, state, oom_killed=cgroups.oom_kills(record.cgroups) > 0)


async def end(record: Record) -> None:
    """Kill all that is in it, and wait until that is gone. OSError if it does not go."""
    if record.init is not None and record.monitor is not None:
        async with asyncio.timeout(END_TIMEOUT):
            await processes.end(record.init)
            await processes.wait(record.monitor)


def clean(records: Records, record: Record) -> None:
    """Blocking. Remove what is left of a sandbox that has ended, or was only half made."""
    if record.init is None:
        processes.end_marked(mark(record.id), END_TIMEOUT)
    cgroups.remove(record.cgroups)
    records.remove(record.id)


def _info(record: Record, state: SandboxState, oom_killed: bool = False) -> SandboxInfo:
    return SandboxInfo(
        record.id,
        state,
        record.owner,
        record.created_at,
        record.workspace,
        record.expires_at,
        oom_killed,
    )
