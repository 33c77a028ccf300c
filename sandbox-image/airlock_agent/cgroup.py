"""The kernel's own counters of this sandbox, which no program in it can write. None where there are none."""

from __future__ import annotations

_OOM_FILES = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
_PEAK_FILES = ("/sys/fs/cgroup/memory.peak", "/sys/fs/cgroup/memory/memory.max_usage_in_bytes")


def _read(path: str) -> str | None:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return None


def oom_kills() -> int | None:
    """How many processes the kernel has killed here for want of memory."""
    for path in _OOM_FILES:
        for line in (_read(path) or "").splitlines():
            key, _, value = line.partition(" ")
            if key == "oom_kill":
                return int(value)
    return None


def peak_memory() -> int | None:
    for path in _PEAK_FILES:
        text = _read(path)
        if text is not None:
            return int(text)
    return None
