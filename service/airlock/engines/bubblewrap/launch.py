"""Starts one bwrap, which becomes the monitor of a sandbox. Blocking: some 15 ms.

bwrap tells the pid of the sandbox's PID 1 as soon as it has forked it. It is put into its groups while bwrap
mounts and Python starts: moving a process between groups takes the kernel as long as both (it waits for all
processors), and the agent runs nothing before the service connects, which it can't before this is done.

When all is mounted, bwrap reads a byte from `--block-fd` and closes it. The byte is there from the beginning;
that nobody can read from that pipe any more is how we know.
"""

import json
import os
import select
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from io import FileIO

from airlock.engines.bubblewrap import processes
from airlock.engines.bubblewrap.processes import ProcessKey
from airlock.engines.bubblewrap.spec import Descriptors
from airlock.errors import SandboxFailed

START_TIMEOUT = 10.0
LAST_WORDS_TIMEOUT = 1.0
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
        (told, info), (block, go) = (_pipe(own) for _ in range(2))
        go.write(b"!")
        kept = Descriptors(seccomp, info.fileno(), block.fileno(), channel)
        standard = {0: stdin.fileno(), 1: stdout.fileno(), 2: stderr.fileno()}
        monitor = _spawn(command(kept), standard | {number: number for number in kept})
        try:
            for end in (info, block, stderr):  # now the other side alone has them
                end.close()
            try:
                keys = processes.identify(_first_process(told, complaints)), processes.identify(monitor)
                limit(*keys)
            except ProcessLookupError:  # it has failed while we looked
                raise _failure(complaints) from None
            _wait_for_mounts(go, complaints)
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


def _first_process(told: FileIO, complaints: FileIO) -> int:
    """The pid in what bwrap writes to `--info-fd`."""
    text = b""
    while _is_ready(told, select.POLLIN, START_TIMEOUT) and (part := told.read(MAX_COMPLAINT)):
        text += part
        if text.rstrip().endswith(b"}"):
            return int(json.loads(text)["child-pid"])
    raise _failure(complaints)


def _wait_for_mounts(go: FileIO, complaints: FileIO) -> None:
    """A pipe's writing end is in error when nobody can read from it. That is so too when bwrap has failed."""
    if not _is_ready(go, select.POLLERR, START_TIMEOUT) or _is_ready(complaints, select.POLLIN, 0):
        raise _failure(complaints)


def _failure(complaints: FileIO) -> SandboxFailed:
    text = b"bwrap does not answer"
    if _is_ready(complaints, select.POLLIN, LAST_WORDS_TIMEOUT):
        text = complaints.read(MAX_COMPLAINT) or b"bwrap has ended"
    return SandboxFailed(f"the sandbox could not be made: {text.decode(errors='replace').strip()}")


def _is_ready(file: FileIO, event: int, timeout: float) -> bool:
    poll = select.poll()  # not `select`, which knows no descriptor beyond 1023
    poll.register(file, event)
    return bool(poll.poll(timeout * 1000))
