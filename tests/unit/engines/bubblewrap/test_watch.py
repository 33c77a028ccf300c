import asyncio
import logging
import os
import subprocess

import pytest

from airlock.engines.bubblewrap.launch import Started
from airlock.engines.bubblewrap.processes import identify
from airlock.engines.bubblewrap.watch import MAX_COMPLAINTS, Watch

pytestmark = pytest.mark.anyio


@pytest.fixture
def watch(caplog):
    caplog.set_level(logging.WARNING)
    return Watch()


def monitor(script):
    """A child whose stderr we read, and which no Popen waits for."""
    reader, writer = os.pipe()
    argv = ["/bin/sh", "-c", script]
    pid = os.posix_spawn(argv[0], argv, {}, file_actions=[(os.POSIX_SPAWN_DUP2, writer, 2)])
    os.close(writer)
    return Started(identify(pid), identify(pid), reader)


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def test_the_dead_are_reaped_and_their_words_logged(watch, caplog):
    started = monitor("echo oh dear >&2")
    watch.add("sb_1", started)
    await until(lambda: not watch._room)
    with pytest.raises(ChildProcessError):
        os.waitpid(started.monitor.pid, os.WNOHANG)
    assert caplog.messages == ["sandbox sb_1: the agent complains: b'oh dear\\n'"]


async def test_the_log_is_not_flooded(watch, caplog):
    started = monitor("for i in $(seq 4000); do echo again and again and again >&2; done")
    watch.add("sb_1", started)
    await until(lambda: not watch._room)
    assert sum(len(record.args[1]) for record in caplog.records) == MAX_COMPLAINTS


async def test_closed_it_holds_nothing_and_ends_nobody(watch):
    before = sorted(os.listdir("/proc/self/fd"))
    started = monitor("exec sleep 600")
    watch.add("sb_1", started)
    watch.close()
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert os.waitpid(started.monitor.pid, os.WNOHANG) == (0, 0)
    subprocess.run(["kill", "-9", str(started.monitor.pid)], check=True)
    os.waitpid(started.monitor.pid, 0)
