"""Launching what is not bwrap, but answers as it does, or doesn't."""

import os
import signal
import socket
import time

import pytest

from airlock.engines.bubblewrap import launch as module
from airlock.engines.bubblewrap.launch import launch
from airlock.engines.bubblewrap.processes import identify, is_alive
from airlock.errors import SandboxFailed

TELL = 'sleep 600 0<&- 1>&- 2>&- %(block)s<&- %(info)s>&- & echo "{ \\"child-pid\\": $! }" >&%(info)s; '
MOUNT = "exec %(block)s<&-; "


@pytest.fixture
def start(monkeypatch):
    """Runs a shell script in the place of bwrap. Descriptors that it leaves open are a failure."""
    monkeypatch.setattr(module, "LAST_WORDS_TIMEOUT", 1.0)
    before = descriptors()

    def start(script, limit=lambda *_: None):
        with socket.socket() as channel, open("/dev/null") as seccomp:

            def command(kept):
                return ["/bin/bash", "-c", script % kept._asdict()]

            return launch(command, seccomp.fileno(), channel.fileno(), limit)

    yield start
    assert descriptors() == before


def descriptors():
    return sorted(os.listdir("/proc/self/fd"))


def finish(started):
    os.close(started.stderr)
    os.kill(started.init.pid, signal.SIGKILL)
    os.kill(started.monitor.pid, signal.SIGKILL)
    os.waitpid(started.monitor.pid, 0)


def gone(key):
    """It is another's child, who may be slow to bury it."""
    deadline = time.monotonic() + 10
    while is_alive(key):
        assert time.monotonic() < deadline
        os.sched_yield()


def test_what_was_started_is_known_and_limited(start):
    limited = []
    started = start(TELL + MOUNT + "wait", lambda *keys: limited.append(keys))
    assert limited == [(started.init, started.monitor)]
    assert os.getsid(started.monitor.pid) == started.monitor.pid
    assert is_alive(started.init)
    finish(started)


def test_it_begins_with_no_signal_ignored_and_no_environment(start):
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        started = start(TELL + MOUNT + "wait")
    finally:
        signal.signal(signal.SIGHUP, ignored)
    with open(f"/proc/{started.init.pid}/status") as status:
        masks = dict(line.split(":\t") for line in status)
    ignored = {number + 1 for number in range(64) if int(masks["SigIgn"], 16) >> number & 1}
    # A shell has its background jobs ignore INT and QUIT, and a posix_spawn glibc's own two signals.
    assert ignored <= {signal.SIGINT, signal.SIGQUIT, 32, 33}
    assert int(masks["SigBlk"], 16) == 0
    finish(started)


def test_bwraps_own_words_are_the_error(start):
    with pytest.raises(SandboxFailed, match=r"made: bwrap: no such luck$"):
        start("echo bwrap: no such luck >&2; exit 1")


def test_a_failure_after_the_pid_was_told_is_one_too(start):
    keys = []
    with pytest.raises(SandboxFailed, match=r"made: bwrap: can't mount$"):
        start(TELL + 'echo "bwrap: can\'t mount" >&2; ' + MOUNT + "wait", lambda init, _: keys.append(init))
    gone(keys[0])


def test_a_failure_without_a_word(start):
    with pytest.raises(SandboxFailed, match="has ended"):
        start("exit 1")


def test_one_that_does_not_answer_is_killed(start, monkeypatch):
    monkeypatch.setattr(module, "START_TIMEOUT", 0.1)
    with pytest.raises(SandboxFailed, match="does not answer"):
        start("exec sleep 600")


def test_one_that_never_gets_ready_is_killed_with_its_child(start, monkeypatch):
    monkeypatch.setattr(module, "START_TIMEOUT", 1.0)
    keys = []
    with pytest.raises(SandboxFailed, match="does not answer"):
        start(TELL + "wait", lambda *both: keys.extend(both))
    for key in keys:
        gone(key)


def test_if_it_can_not_be_limited_it_does_not_live(start):
    keys = []

    def limit(*both):
        keys.extend(both)
        raise OSError("no such group")

    with pytest.raises(OSError, match="no such group"):
        start(TELL + MOUNT + "wait", limit)
    for key in keys:
        gone(key)


def test_a_program_that_is_not_there(monkeypatch):
    with pytest.raises(FileNotFoundError):
        launch(lambda _: ["/no/such/bwrap"], 0, 0, lambda *_: None)
    assert is_alive(identify(os.getpid()))
