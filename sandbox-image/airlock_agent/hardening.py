"""What keeps the programs of a sandbox, which have the agent's uid, away from the agent."""

import ctypes
import os
import resource

_PR_SET_DUMPABLE = 4
_libc = ctypes.CDLL(None, use_errno=True)


def set_dumpable(dumpable: bool) -> None:
    """A process that is not dumpable can't be traced, and its /proc files are closed to its own uid."""
    if _libc.prctl(_PR_SET_DUMPABLE, int(dumpable), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_DUMPABLE)")


def parse_rlimits(text: str) -> list[tuple[int, int]]:
    """`core=0,nofile=1024` as pairs for `setrlimit`."""
    pairs = (item.split("=") for item in text.split(",") if item)
    return [(getattr(resource, "RLIMIT_" + name.upper()), int(value)) for name, value in pairs]


def set_rlimits(rlimits: list[tuple[int, int]]) -> None:
    for which, value in rlimits:
        hard = resource.getrlimit(which)[1]
        allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (allowed, allowed))


def close_all_but_stdio() -> None:
    os.closerange(3, 1 << 16)
