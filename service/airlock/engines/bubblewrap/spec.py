"""From a sandbox's specification to the arguments of bwrap. Pure.

Whatever is writable is named here: /tmp, /dev/shm and /workspace. Everything else is bound read-only or is on
bwrap's own tmpfs, which is made read-only at the end.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from airlock.model import Limits
from airlock.settings import MIB

UID = 1000
SHM_BYTES = 64 * MIB
AGENT = "/opt/airlock/airlock_agent"
AGENT_COMMAND = ("python3", "main.py")

ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/tmp",  # noqa: S108 - a path in the sandbox
    "LANG": "C.UTF-8",
    "USER": "sandbox",
    "LOGNAME": "sandbox",
}


@dataclass(frozen=True, slots=True)
class Root:
    """What the root file system is put together from, in paths as bwrap sees them."""

    binds: tuple[tuple[str, str], ...]
    """Sources and destinations, read-only, in this order."""
    links: tuple[tuple[str, str], ...] = ()
    """Targets and the links that point to them."""


class Descriptors(NamedTuple):
    """Those that bwrap inherits: three for its own use, and the agent's socket."""

    seccomp: int
    info: int
    block: int
    channel: int


def mark(sandbox_id: str) -> str:
    """A word among the arguments by which the processes of a half-made sandbox can be found."""
    return f"airlock:{sandbox_id}"


def isolation(
    root: Root, seccomp: int, tmp_bytes: int, workspace: str | None, cgroup: tuple[str, str] | None = None
) -> list[str]:
    """Namespaces, privileges and files. `workspace` is the path of one, or None for a tmpfs."""
    arguments = [
        *("--unshare-all", "--as-pid-1", "--new-session", "--hostname", "sandbox"),
        *("--uid", str(UID), "--gid", str(UID), "--cap-drop", "ALL", "--seccomp", str(seccomp)),
    ]
    for target, link in root.links:
        arguments += ["--symlink", target, link]
    for source, destination in root.binds:
        arguments += ["--ro-bind", source, destination]
    arguments += ["--proc", "/proc", "--dev", "/dev"]
    arguments += _tmpfs("/dev/shm", min(SHM_BYTES, tmp_bytes), "1777")  # noqa: S108 - a path in the sandbox
    arguments += _tmpfs("/tmp", tmp_bytes, "1777")  # noqa: S108 - a path in the sandbox
    if workspace is None:
        arguments += _tmpfs("/workspace", tmp_bytes, "0755")
    else:
        arguments += ["--bind", workspace, "/workspace"]
    if cgroup is not None:
        arguments += ["--ro-bind", *cgroup]
    return [*arguments, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/workspace"]


def agent(sandbox_id: str, descriptors: Descriptors, rlimits: str) -> list[str]:
    """What the agent gets beyond `isolation`, and the agent itself."""
    environment = ENVIRONMENT | {
        "PYTHONPATH": f"{AGENT}/boot",
        "AIRLOCK_CHANNEL": f"listen:{descriptors.channel}",
        "AIRLOCK_RLIMITS": rlimits,
    }
    return [
        *("--info-fd", str(descriptors.info), "--block-fd", str(descriptors.block)),
        # This takes away a variable that is not there: it is only a mark.
        *("--unsetenv", mark(sandbox_id)),
        *setenv(environment),
        *("--", *AGENT_COMMAND),
    ]


def setenv(environment: Mapping[str, str]) -> Iterable[str]:
    """Exactly these variables."""
    yield "--clearenv"
    for name, value in environment.items():
        yield from ("--setenv", name, value)


def rlimits(limits: Limits, missing: Iterable[str]) -> str:
    """Limits that each program gets; those that stand in for a missing controller hold for one process each.

    RLIMIT_DATA, not RLIMIT_AS: a node that does nothing has 700 MB of addresses, nearly all of it unused.
    """
    values = {"core": 0, "nofile": 4096, "msgqueue": 0}
    if "pids" in missing:
        values["nproc"] = limits.pids
    if "memory" in missing:
        values["data"] = limits.memory_bytes
    return ",".join(f"{name}={value}" for name, value in values.items())


def _tmpfs(destination: str, size: int, mode: str) -> list[str]:
    return ["--perms", mode, "--size", str(size), "--tmpfs", destination]
