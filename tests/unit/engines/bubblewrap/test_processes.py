import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from airlock.engines.bubblewrap import processes
from airlock.engines.bubblewrap.processes import ProcessKey, Stat, identify, is_alive, parse_stat


@pytest.fixture
def sleeper():
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def test_a_name_can_hold_anything():
    rest = "S 7 8 8 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 3461120 197"
    assert parse_stat(f"12 (a) R 1 (b)) {rest}\n") == Stat(state="S", parent=7, start_time=4711)


def test_the_living(sleeper):
    own = identify(os.getpid())
    assert is_alive(own)
    assert is_alive(identify(sleeper.pid))
    assert sleeper.pid in processes.children([own.pid])


def test_another_with_the_same_pid_is_not_it(sleeper):
    key = identify(sleeper.pid)
    assert not is_alive(replace(key, start_time=key.start_time - 1))


def test_the_dead(sleeper):
    key = identify(sleeper.pid)
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)  # dead, and not buried yet
    assert not is_alive(key)
    sleeper.wait()
    assert not is_alive(key)
    with pytest.raises(ProcessLookupError):
        identify(sleeper.pid)
    processes.kill(sleeper.pid)


@pytest.mark.anyio
async def test_end_waits_for_the_end(sleeper):
    key = identify(sleeper.pid)
    await processes.end(key)
    assert not is_alive(key)
    await processes.end(key)
    sleeper.wait()
    await processes.end(key)
    await processes.wait(key)


@pytest.mark.anyio
async def test_end_spares_another_with_the_same_pid(sleeper):
    await processes.end(ProcessKey(sleeper.pid, start_time=1))
    assert sleeper.poll() is None


def test_marked_processes_and_their_children_are_ended():
    parent = "import subprocess as s; p = s.Popen(['sleep', '600']); print(p.pid, flush=True); p.wait()"
    command = [sys.executable, "-c", parent, "airlock:sb_marked", "more"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as marked:
        child = identify(int(marked.stdout.readline()))
        processes.end_marked("airlock:sb_mark", timeout=10)
        assert is_alive(child)
        # Zombies have no arguments: that nobody has buried the parent yet does not matter.
        processes.end_marked("airlock:sb_marked", timeout=10)
        assert marked.wait(10) == -9
        deadline = time.monotonic() + 10
        while is_alive(child):  # it was killed, which takes it a moment
            assert time.monotonic() < deadline
