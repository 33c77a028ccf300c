"""Where each engine's sandboxes live, and what can be seen and done there behind the engine's back."""

import json
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import docker

from airlock.engine import Engine
from airlock.engines.bubblewrap.engine import BubblewrapEngine
from airlock.engines.docker.engine import DockerEngine
from airlock.settings import Settings

CGROUPS = Path("/sys/fs/cgroup")


class Place(ABC):
    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @abstractmethod
    def engine(self, **changes: str) -> Engine:
        """A new engine object, as a restarted service would have."""

    @abstractmethod
    def pid(self, sandbox_id: str) -> int:
        """The host's name for the agent."""

    @abstractmethod
    def clean(self) -> None:
        """Assert that no sandbox is left, and remove the workspaces."""

    def kill(self, sandbox_id: str) -> None:
        os.kill(self.pid(sandbox_id), signal.SIGKILL)

    def limits(self, sandbox_id: str) -> dict[str, str]:
        """What the kernel was told: memory, memory and swap, cpu quota and period, pids."""
        lines = Path(f"/proc/{self.pid(sandbox_id)}/cgroup").read_text().splitlines()
        groups = dict(line.split(":", 2)[1:] for line in lines)
        if list(groups) == [""]:
            group = CGROUPS / groups[""].lstrip("/")
            quota, period = (group / "cpu.max").read_text().split()
            swap = (group / "memory.swap.max").read_text()
            memory = (group / "memory.max").read_text()
            both = str(int(memory) + int(swap))
            return _stripped(memory=memory, both=both, quota=quota, period=period, pids=_pids(group))
        memory, cpu, pids = (_v1_group(groups, name) for name in ("memory", "cpu", "pids"))
        return _stripped(
            memory=(memory / "memory.limit_in_bytes").read_text(),
            both=(memory / "memory.memsw.limit_in_bytes").read_text(),
            quota=(cpu / "cpu.cfs_quota_us").read_text(),
            period=(cpu / "cpu.cfs_period_us").read_text(),
            pids=_pids(pids),
        )


def _stripped(**texts: str) -> dict[str, str]:
    return {name: text.strip() for name, text in texts.items()}


def _pids(group: Path) -> str:
    return (group / "pids.max").read_text()


def _v1_group(groups: dict[str, str], controller: str) -> Path:
    names = next(names for names in groups if controller in names.split(","))
    mount = next(path for path in (CGROUPS / names, CGROUPS / controller) if path.is_dir())
    return mount / groups[names].lstrip("/")


class DockerPlace(Place):
    def engine(self, **changes: str) -> Engine:
        return DockerEngine(self.settings.model_copy(update=changes))

    def pid(self, sandbox_id: str) -> int:
        with closing(docker.from_env()) as client:
            container = client.containers.get(f"{self.settings.instance}-{sandbox_id}")
            return int(container.attrs["State"]["Pid"])

    def clean(self) -> None:
        with closing(docker.from_env()) as client:
            mine = {"label": f"airlock.instance={self.settings.instance}"}
            assert client.containers.list(all=True, filters=mine) == []
            for volume in client.volumes.list(filters=mine):
                volume.remove()


class BubblewrapPlace(Place):
    def engine(self, **changes: str) -> Engine:
        return BubblewrapEngine(self.settings.model_copy(update=changes))

    def pid(self, sandbox_id: str) -> int:
        record = self.settings.data_dir / "sandboxes" / sandbox_id / "sandbox.json"
        return int(json.loads(record.read_text())["init"]["pid"])

    def clean(self) -> None:
        assert list((self.settings.data_dir / "sandboxes").iterdir()) == []
        assert list(self._members()) == []

    def _members(self) -> Iterator[Path]:
        """Processes in a control group of this instance."""
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has gone since
                if f"/{self.settings.instance}/" in (process / "cgroup").read_text():
                    yield process
