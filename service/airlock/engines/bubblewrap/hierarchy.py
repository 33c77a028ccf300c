"""Where the service stands in the machine's control groups, from the two files that say so. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

CONTROLLERS = ("memory", "cpu", "pids")
LEAF = "airlock-service"
"""The v2 group that the service moves itself to, where groups below its own need controllers."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted hierarchy. `controllers` is empty for v2, which says elsewhere what it has."""

    version: int
    controllers: frozenset[str]
    root: str
    point: str


@dataclass(frozen=True, slots=True)
class Home:
    """The service's own group, in the hierarchy of one controller."""

    version: int
    directory: Path
    is_namespace_root: bool


def locate(mountinfo: str, membership: str) -> dict[str, Home]:
    """`/proc/self/mountinfo` and `/proc/self/cgroup` to the service's own group for each controller.

    A controller that no v1 hierarchy has is looked for in v2, if that is mounted.
    """
    groups = parse_membership(membership)
    homes: dict[str, Home] = {}
    mounts = sorted(parse_mounts(mountinfo), key=lambda mount: mount.version)
    for controller in CONTROLLERS:
        for mount in mounts:
            if mount.version == 1 and controller not in mount.controllers:
                continue
            group = groups.get(controller if mount.version == 1 else "")
            if group is not None and (home := _home(mount, group)) is not None:
                homes[controller] = home
                break
    return homes


def parse_mounts(mountinfo: str) -> Iterator[Mount]:
    """Lines as `36 35 98:0 /root /point rw,noatime master:1 - cgroup cgroup rw,memory`."""
    for line in mountinfo.splitlines():
        place, _, kind = line.partition(" - ")
        fields = place.split()
        if kind.startswith("cgroup2 "):
            yield Mount(2, frozenset(), _unescape(fields[3]), _unescape(fields[4]))
        elif kind.startswith("cgroup "):
            options = frozenset(kind.split()[-1].split(","))
            yield Mount(1, options & frozenset(CONTROLLERS), _unescape(fields[3]), _unescape(fields[4]))


def parse_membership(text: str) -> dict[str, str]:
    """Lines as `4:cpu,cpuacct:/group`, and `0::/group` for v2, which is under ""."""
    groups: dict[str, str] = {}
    for line in text.splitlines():
        _, controllers, group = line.split(":", 2)
        for controller in controllers.split(","):
            groups[controller] = group
    return groups


def _home(mount: Mount, group: str) -> Home | None:
    """A mount shows only what is below its root: in a container, often the container's own group."""
    path = PurePosixPath(group)
    if ".." in path.parts or not path.is_relative_to(mount.root):
        return None
    directory = Path(mount.point) / path.relative_to(mount.root)
    if mount.version == 2 and directory.name == LEAF:  # an earlier start of the service moved us here
        directory, path = directory.parent, path.parent
    return Home(mount.version, directory, is_namespace_root=path == PurePosixPath("/"))


def _unescape(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
