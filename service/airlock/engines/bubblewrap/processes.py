"""Processes by pid and start time, which together no other process ever has."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class ProcessKey:
    pid: int
    start_time: int
    """In clock ticks since the machine started."""


@dataclass(frozen=True, slots=True)
class Stat:
    state: str
    parent: int
    start_time: int


def parse_stat(text: str) -> Stat:
    """`/proc/PID/stat`. The name in it can hold anything, but it ends at the last bracket."""
    fields = text.rpartition(")")[2].split()
    return Stat(state=fields[0], parent=int(fields[1]), start_time=int(fields[19]))


def stat(pid: int) -> Stat | None:
    try:
        return parse_stat((PROC / str(pid) / "stat").read_text(errors="replace"))
    except (FileNotFoundError, ProcessLookupError):
        return None


def identify(pid: int) -> ProcessKey:
    found = stat(pid)
    if found is None:
        raise ProcessLookupError(f"process {pid} has ended")
    return ProcessKey(pid, found.start_time)


def is_alive(process: ProcessKey) -> bool:
    found = stat(process.pid)
    return found is not None and found.start_time == process.start_time and found.state not in "ZX"


def end_marked(marker: str, timeout: float) -> None:
    """Kill the processes that have `marker` among their arguments, and their children. Blocking."""
    word = b"\0" + marker.encode() + b"\0"
    deadline = time.monotonic() + timeout
    while pids := [pid for pid in _pids() if word in _cmdline(pid)]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the processes {pids} do not end")
        for pid in (*children(pids), *pids):
            kill(pid)
        time.sleep(0.001)  # they are not ours to wait for


def children(pids: list[int]) -> list[int]:
    parents = frozenset(pids)
    return [pid for pid in _pids() if (found := stat(pid)) is not None and found.parent in parents]


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


async def end(process: ProcessKey) -> None:
    """Kill it, and return when it is gone: for the init of a PID namespace, when all of that is gone."""
    await _gone(process, signal.SIGKILL)


async def wait(process: ProcessKey) -> None:
    """Return when it is gone, by itself."""
    await _gone(process, None)


async def _gone(process: ProcessKey, first: signal.Signals | None) -> None:
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    gone = asyncio.Event()
    try:
        # Only now, when the descriptor holds on to whoever has this pid.
        if not is_alive(process):
            return
        if first is not None:
            signal.pidfd_send_signal(descriptor, first)
        # It is readable once its process has ended.
        loop.add_reader(descriptor, gone.set)
        try:
            await gone.wait()
        finally:
            loop.remove_reader(descriptor)
    finally:
        os.close(descriptor)


def _pids() -> Iterator[int]:
    return (int(path.name) for path in PROC.iterdir() if path.name.isdigit())


def _cmdline(pid: int) -> bytes:
    try:
        return (PROC / str(pid) / "cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
