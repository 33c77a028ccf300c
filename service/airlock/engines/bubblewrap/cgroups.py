"""Limits by control groups, v1 and v2, in groups of our own below the one that the service itself is in.

A sandbox's groups are `<own group>/airlock/<instance>/<sandbox id>`, so a service that is itself limited can
give its sandboxes no more than it has. A controller that can't be had is left out, with the reason why.
"""

import errno
import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from airlock.engines.bubblewrap.hierarchy import CONTROLLERS, LEAF, Home, locate
from airlock.model import Limits

CPU_PERIOD = 100_000
MIN_CPU_QUOTA = 1_000
"""Microseconds; the kernel takes no less."""
REMOVAL_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where the groups of one controller are made."""

    home: Home
    directory: Path

    @property
    def version(self) -> int:
        return self.home.version


@dataclass(frozen=True, slots=True)
class Cgroups:
    places: Mapping[str, Place]
    missing: Mapping[str, str]
    """Controllers that can't be had, and why."""

    def paths(self, sandbox_id: str) -> list[str]:
        """Every directory that a sandbox's groups are."""
        return sorted({str(place.directory / sandbox_id) for place in self.places.values()})

    def make(self, sandbox_id: str, limits: Limits) -> None:
        # Another engine of this instance may have closed, and taken them away.
        gone = [pair for pair in self.places.items() if not pair[1].directory.exists()]
        for controller, place in gone:
            _establish(controller, place)
        for path in self.paths(sandbox_id):
            Path(path).mkdir()
        for controller, place in self.places.items():
            for file, value in limit_files(place.version, controller, limits):
                _write_limit(place.directory / sandbox_id / file, value)

    def bind(self, sandbox_id: str) -> tuple[str, str] | None:
        """What the agent is to see of its memory group, and where: a source and a destination."""
        if (place := self.places.get("memory")) is None:
            return None
        seen_at = "/sys/fs/cgroup" if place.version == 2 else "/sys/fs/cgroup/memory"
        return str(place.directory / sandbox_id), seen_at

    def close(self) -> None:
        """Take away our own groups if no sandbox is left in them."""
        for place in self.places.values():
            for directory in (place.directory, place.directory.parent):
                with suppress(OSError):
                    directory.rmdir()


def prepare(instance: str, mountinfo: str, membership: str) -> Cgroups:
    """Make the groups that all the sandboxes' groups will stand in."""
    homes = locate(mountinfo, membership)
    places: dict[str, Place] = {}
    missing: dict[str, str] = {}
    for controller in CONTROLLERS:
        home = homes.get(controller)
        if home is None:
            missing[controller] = "no cgroup hierarchy has the controller"
            continue
        place = Place(home, home.directory / "airlock" / instance)
        try:
            _establish(controller, place)
            _probe(controller, place)
        except OSError as error:
            missing[controller] = f"cgroup v{home.version}: {error.strerror}"
        else:
            places[controller] = place
    return Cgroups(places, missing)


def join(paths: Iterable[str], pid: int) -> None:
    for path in paths:
        Path(path, "cgroup.procs").write_text(str(pid))


def remove(paths: Iterable[str]) -> None:
    """Remove groups, and what may still run in them. A dead process leaves its group a moment later."""
    deadline = time.monotonic() + REMOVAL_TIMEOUT
    for path in paths:
        while True:
            try:
                Path(path).rmdir()
            except FileNotFoundError:
                break
            except OSError as error:
                if error.errno != errno.EBUSY or time.monotonic() > deadline:
                    raise
                _kill_all(Path(path))
                time.sleep(0.001)  # no event tells that a v1 group is empty
            else:
                break


def oom_kills(paths: Iterable[str]) -> int:
    """How many processes the kernel has killed in a sandbox for want of memory."""
    for path in paths:
        for file in ("memory.events", "memory.oom_control"):
            with suppress(OSError):
                for line in Path(path, file).read_text().splitlines():
                    key, _, value = line.partition(" ")
                    if key == "oom_kill":
                        return int(value)
    return 0


def limit_files(version: int, controller: str, limits: Limits) -> list[tuple[str, str]]:
    memory = str(limits.memory_bytes)
    quota = str(max(MIN_CPU_QUOTA, round(limits.cpus * CPU_PERIOD)))
    files = {
        (1, "memory"): [("memory.limit_in_bytes", memory), ("memory.memsw.limit_in_bytes", memory)],
        (1, "cpu"): [("cpu.cfs_period_us", str(CPU_PERIOD)), ("cpu.cfs_quota_us", quota)],
        (1, "pids"): [("pids.max", str(limits.pids))],
        (2, "memory"): [("memory.max", memory), ("memory.swap.max", "0")],
        (2, "cpu"): [("cpu.max", f"{quota} {CPU_PERIOD}")],
        (2, "pids"): [("pids.max", str(limits.pids))],
    }
    return files[version, controller]


def _write_limit(path: Path, value: str) -> None:
    try:
        path.write_text(value)
    except FileNotFoundError:
        if "sw" not in path.name:  # a kernel that does not account for swap has no file for it
            raise
    except OSError as error:
        # v1 refuses a processor share beyond that of the group above, whose limit then holds.
        if error.errno != errno.EINVAL or path.name != "cpu.cfs_quota_us":
            raise


def _establish(controller: str, place: Place) -> None:
    place.directory.mkdir(parents=True, exist_ok=True)
    if place.version == 2:
        _hand_down(controller, place)


def _hand_down(controller: str, place: Place) -> None:
    """Give a v2 controller from our own group to the sandboxes' groups."""
    home = place.home
    if controller not in _words(home.directory / "cgroup.controllers"):
        raise OSError(errno.ENOTSUP, "the controller is not given to the service's own group")
    for group in (home.directory, place.directory.parent, place.directory):
        control = group / "cgroup.subtree_control"
        if controller in _words(control):
            continue
        try:
            control.write_text(f"+{controller}")
        except OSError as error:
            # A group other than the root can't have both processes and controllers for groups below it.
            if error.errno != errno.EBUSY or group != home.directory:
                raise
            _make_way(home)
            control.write_text(f"+{controller}")


def _probe(controller: str, place: Place) -> None:
    """That a group made here would have the controller's files."""
    probe = place.directory / f"probe-{os.getpid()}"
    probe.mkdir(exist_ok=True)
    try:
        limits = Limits(cpus=1, memory_bytes=1, pids=1, tmp_bytes=0, output_bytes=0)
        file = limit_files(place.version, controller, limits)[-1 if controller == "cpu" else 0][0]
        if not os.access(probe / file, os.W_OK):
            raise FileNotFoundError(errno.ENOENT, f"a group has no {file} that we may write")
    finally:
        probe.rmdir()


def _make_way(home: Home) -> None:
    """Move the processes of our own group to a leaf, if the group is ours to arrange."""
    if not (home.is_namespace_root or _is_delegated(home.directory)):
        raise OSError(
            errno.EBUSY,
            "the service's own group is not delegated to it: give it one with "
            "`systemd-run --scope -p Delegate=yes`, or run it in a container",
        )
    leaf = home.directory / LEAF
    leaf.mkdir(exist_ok=True)
    for pid in _pids(home.directory):
        with suppress(ProcessLookupError):
            (leaf / "cgroup.procs").write_text(str(pid))


def _is_delegated(directory: Path) -> bool:
    """systemd marks the groups that it leaves to their services."""
    try:
        return os.getxattr(directory, "user.delegate") == b"1"
    except OSError:
        return False


def _kill_all(directory: Path) -> None:
    for pid in _pids(directory):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _pids(directory: Path) -> Iterator[int]:
    """Those in a group; without the zeros, which are processes of a PID namespace that we can't see."""
    with suppress(FileNotFoundError):
        yield from (int(pid) for pid in _words(directory / "cgroup.procs") if pid != "0")


def _words(path: Path) -> list[str]:
    return path.read_text().split()
