"""A service that dies while it makes a sandbox: the next one finds what is left by the record, and destroys it."""

import subprocess
import sys
from pathlib import Path

import pytest

from airlock.model import SandboxState

pytestmark = [pytest.mark.anyio, pytest.mark.engines("bubblewrap")]

DIE = """
import asyncio, os, sys
from pathlib import Path
from airlock.engines.bubblewrap import cgroups, channel, launch, processes, records, sandbox, workspaces
from airlock.engines.bubblewrap.engine import BubblewrapEngine
from airlock.model import Limits, Owner, SandboxSpec, Workspace
from airlock.settings import Settings

async def main(data_dir, instance, owner, name):
    engine = BubblewrapEngine(Settings(data_dir=Path(data_dir), instance=instance))
    await engine.check()
    setattr(eval(owner), name, lambda *_: os._exit(9))
    limits = Limits(1.0, 64 << 20, 16, 1 << 20, 1 << 20)
    await engine.create(SandboxSpec("sb_half", Owner("test"), limits, Workspace(Owner("test"), "half")))

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("owner", "name", "state"),
    [
        ("records.Records", "add", None),
        ("workspaces", "ensure", SandboxState.CREATED),
        ("cgroups.Cgroups", "make", SandboxState.CREATED),
        ("cgroups", "_write_limit", SandboxState.CREATED),
        ("channel", "listen", SandboxState.CREATED),
        ("launch", "_spawn", SandboxState.CREATED),
        ("launch", "_first_process", SandboxState.CREATED),
        ("cgroups", "join", SandboxState.CREATED),
        ("records.Records", "update", SandboxState.CREATED),
        ("launch", "_wait_for_mounts", SandboxState.RUNNING),
    ],
)
async def test_a_service_that_dies_half_way(engine, place, owner, name, state):
    settings = place.settings
    command = [sys.executable, "-c", DIE, settings.data_dir, settings.instance, owner, name]
    assert subprocess.run(command, check=False).returncode == 9
    found = await engine.list()
    assert [(info.id, info.state) for info in found] == ([] if state is None else [("sb_half", state)])
    await engine.destroy("sb_half")
    assert await engine.list() == []
    assert [pid for pid in _pids() if _has_mounted(pid, settings.data_dir)] == []
    assert list(Path("/sys/fs/cgroup").rglob("sb_half")) == []


def _pids():
    return [path.name for path in Path("/proc").iterdir() if path.name.isdigit()]


def _has_mounted(pid, directory):
    """Whether a process has the agent's files, or is a bwrap that gives them to one."""
    try:
        return f"{directory}/runtimes" in Path("/proc", pid, "mountinfo").read_text()
    except OSError:
        return False
