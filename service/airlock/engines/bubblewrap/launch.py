"""Starts one bwrap, which becomes the monitor of a sandbox. Blocking: some 10 ms.

bwrap tells the pid of the sandbox's PID 1 as soon as it has forked it. It is put into its groups while bwrap
mounts and Python starts: moving a process between groups takes the kernel as long as both (it waits for all
processors), and the agent runs nothing before the service connects, which it can't before this is done.
"""

import json
import os
import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from io import FileIO

from airlock.engines.bubblewrap import processes
from airlock.engines.bubblewrap.processes import ProcessKey
from airlock.engines.bubblewrap.spec import Descriptors
from airlock.errors import SandboxFailed

START_TIMEOUT = 10.0
MAX_COMPLAINT = 4096


@dataclass(frozen=True, slots=True)
class Started:
    init: ProcessKey
    monitor: ProcessKey
    """A child of the service, which must reap it."""
    stderr: int
    """A descriptor of what bwrap and the agent complain of."""


def launch(
    command: Callable[[Descriptors], Sequence[str]],
    seccomp: int,
    channel: int,
    limit: Callable[[ProcessKey, ProcessKey], None],
) -> Started:
    """`limit` is called with PID 1 and the monitor."""
    with ExitStack() as own:
        (stdin, _), (_, stdout), (complaints, stderr) = (_pipe(own) for _ in range(3))
        told, info = _pipe(own)
        kept = Descriptors(seccomp, info.fileno(), channel)
        standard = {0: stdin.fileno(), 1: stdout.fileno(), 2: stderr.fileno()}
        monitor = _spawn(command(kept), standard | {number: number for number in kept})
        try:
            for end in (info, stderr):  # the last ones of ours, so that bwrap's death is seen
                end.close()
            keys = processes.identify(_child(told, complaints)), processes.identify(monitor)
            limit(*keys)
            return Started(*keys, os.dup(complaints.fileno()))
        except BaseException:
            for pid in (*processes.children([monitor]), monitor):
                processes.kill(pid)
            os.waitpid(monitor, 0)
            raise


def _pipe(own: ExitStack) -> tuple[FileIO, FileIO]:
    reader, writer = os.pipe()
    return own.enter_context(FileIO(reader, "r")), own.enter_context(FileIO(writer, "w"))


def _spawn(command: Sequence[str], descriptors: Mapping[int, int]) -> int:
    """In a session of its own, so that no signal to the service's group ends a sandbox.

    A descriptor that is duplicated to itself loses its close-on-exec flag, and that only in the child.
    """
    actions = [(os.POSIX_SPAWN_DUP2, ours, theirs) for theirs, ours in descriptors.items()]
    handled = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
    return os.posix_spawn(
        command[0], list(command), {}, file_actions=actions, setsid=True, setsigmask=(), setsigdef=handled
    )


def _child(told: FileIO, complaints: FileIO) -> int:
    """The pid in what bwrap writes to `--info-fd`."""
    deadline = time.monotonic() + START_TIMEOUT
    text = b""
    while part := _read(told, deadline):
        text += part
        if text.rstrip().endswith(b"}"):
            return int(json.loads(text)["child-pid"])
    complaint = _read(complaints, deadline)
    raise SandboxFailed(f"the sandbox could not be made: {complaint.decode(errors='replace').strip()}")


def _read(file: FileIO, deadline: float) -> bytes:
    """What is there next; b"" at the end."""
    poll = select.poll()  # not `select`, which knows no descriptor beyond 1023
    poll.register(file, select.POLLIN)
    if not poll.poll(max(0, deadline - time.monotonic()) * 1000):
        raise SandboxFailed(f"bwrap did not start a sandbox in {START_TIMEOUT:.0f} s")
    return file.read(MAX_COMPLAINT) or b""
