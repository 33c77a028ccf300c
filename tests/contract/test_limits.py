"""Every limit, and every way to end, as the kernel enforces and the service tells it."""

import asyncio
import os
import signal
from contextlib import aclosing
from pathlib import Path

import pytest

from airlock.errors import InvalidArguments
from airlock.model import Code, RunFinished, RunStarted
from contract.running import MIB, OWNER, Runner, runner_on

pytestmark = [pytest.mark.anyio, pytest.mark.engines("bubblewrap", "docker")]


@pytest.fixture
async def runner(engine):
    async with runner_on(engine) as runner:
        yield runner


async def test_memory(runner: Runner):
    outcome = await runner.python("x = bytearray(1 << 30)\nprint(len(x))", limits={"memory_bytes": 64 * MIB})
    assert outcome.verdict == ("oom_killed", 137, "KILL")


async def test_memory_of_a_child_of_the_program(runner: Runner):
    outcome = await runner.shell("python3 -c 'x = bytearray(1 << 30)'", limits={"memory_bytes": 64 * MIB})
    assert outcome.verdict == ("oom_killed", 137, "KILL")


async def test_a_plain_kill_is_not_out_of_memory(runner: Runner):
    outcome = await runner.python("import os; os.kill(os.getpid(), 9)", limits={"memory_bytes": 64 * MIB})
    assert outcome.verdict == ("signaled", 137, "KILL")


async def test_memory_within_its_limit(runner: Runner):
    outcome = await runner.python("x = bytearray(100 << 20)\nprint(len(x))")
    assert outcome.verdict == ("exited", 0, None)
    assert outcome.end.usage is not None
    assert 100 * MIB < outcome.end.usage.peak_memory_bytes < 200 * MIB


async def test_processes(runner: Runner):
    code = (
        "import os, sys\nn = 0\n"
        "try:\n    while n < 500:\n"
        "        if os.fork() == 0: __import__('signal').pause()\n        n += 1\n"
        "except BlockingIOError: print('refused')\nsys.stdout.flush(); print(n)"
    )
    outcome = await runner.python(code, limits={"pids": 40})
    refused, count = outcome.stdout.split()
    assert refused == b"refused"
    assert 30 <= int(count) < 40
    assert outcome.verdict == ("exited", 0, None)


async def test_a_fork_bomb_ends_with_its_time(runner: Runner):
    outcome = await runner.shell("bomb() { bomb | bomb & }; bomb; sleep 60", timeout=2.0)
    assert outcome.verdict[:2] == ("timed_out", 124)
    assert (await runner.python("print(1)")).stdout == b"1\n"


@pytest.mark.parametrize("folder", ["/tmp", "/workspace"])
async def test_disk(runner: Runner, folder):
    code = f"with open('{folder}/big', 'wb') as f:\n    while True: f.write(bytes(1 << 20)); f.flush()"
    outcome = await runner.python(code, limits={"tmp_bytes": 8 * MIB})
    assert outcome.verdict == ("disk_full", 1, None)
    assert b"No space left on device" in outcome.stderr


async def test_cpu(runner: Runner):
    code = (
        "import multiprocessing, time\n"
        "def spin(end):\n    while time.monotonic() < end: pass\n"
        "end = time.monotonic() + 2\n"
        "ps = [multiprocessing.Process(target=spin, args=(end,)) for _ in range(2)]\n"
        "[p.start() for p in ps]; [p.join() for p in ps]"
    )
    outcome = await runner.python(code, limits={"cpus": 0.5})
    assert outcome.end.usage is not None
    # Two spinning processes had two seconds: without a limit that is up to 4,000 ms, with it about 1,000.
    assert outcome.end.usage.cpu_ms < 0.8 * outcome.end.duration_ms


async def test_a_flood_on_both_streams_never_blocks_the_program(runner: Runner):
    code = (
        "import sys, threading\n"
        "def flood(s):\n    for _ in range(200): s.write(b'x' * 100_000)\n"
        "ts = [threading.Thread(target=flood, args=(s.buffer,)) for s in (sys.stdout, sys.stderr)]\n"
        "[t.start() for t in ts]; [t.join() for t in ts]"
    )
    outcome = await runner.python(code, limits={"output_bytes": 10_000})
    assert outcome.verdict == ("exited", 0, None)
    assert (outcome.end.stdout_bytes, outcome.end.stderr_bytes) == (20_000_000, 20_000_000)
    assert len(outcome.stdout) == len(outcome.stderr) == 10_000


async def test_a_program_that_never_stops_printing_is_stopped(engine):
    async with runner_on(engine, output_ceiling_bytes=5 * MIB) as runner:
        outcome = await runner.shell("yes", timeout=60.0)
    assert outcome.verdict == ("output_limit", 137, "KILL")
    assert outcome.end.stdout_bytes > 5 * MIB


async def test_time_is_up_for_everything_that_descends_from_the_program(runner: Runner):
    code = (
        "import os, signal, time\nsignal.signal(15, signal.SIG_IGN)\n"
        "for _ in range(3):\n"
        "    if os.fork() == 0:\n        os.setsid()\n        if os.fork() == 0: break\n        os._exit(0)\n"
        "while True:\n    open(f'/workspace/{os.getpid()}', 'w').close(); time.sleep(0.01)\n"
    )
    outcome = await runner.python(code, timeout=1.0, workspace="descendants")
    assert outcome.verdict[:2] == ("timed_out", 124)
    await runner.shell("rm -f ./*", workspace="descendants")
    assert (await runner.shell("ls", workspace="descendants")).stdout == b""


async def test_zombies_and_orphans_are_buried(runner: Runner):
    code = (
        "import os, time\n"
        "for _ in range(30):\n"
        "    if os.fork() == 0:\n        if os.fork() == 0: os._exit(0)\n        os._exit(0)\n"
        "for _ in range(30): os.wait()\n"
        "deadline = time.monotonic() + 10\n"
        "while len([p for p in os.listdir('/proc') if p.isdigit()]) > 2 and time.monotonic() < deadline: pass\n"
        "print(len([p for p in os.listdir('/proc') if p.isdigit()]))"
    )
    assert (await runner.python(code)).stdout == b"2\n"


async def test_a_sandbox_that_dies_under_a_run_is_no_made_up_result(engine):
    async with runner_on(engine) as runner:
        request = runner.request(Code("python", b"import time; print(1, flush=True); time.sleep(60)"))
        async with aclosing(runner.runs.events(OWNER, request)) as events:
            started = await anext(events)
            assert isinstance(started, RunStarted)
            await anext(events)
            await engine.destroy(started.sandbox)
            end = await anext(events)
    assert isinstance(end, RunFinished)
    assert end.status in ("killed", "lost")
    assert end.exit_code is None


async def test_a_dead_agent_does_not_outlive_the_deadline(engine, place):
    async with runner_on(engine, kill_grace=0.2) as runner:
        request = runner.request(Code("python", b"while True: pass"), timeout=1.0)
        async with aclosing(runner.runs.events(OWNER, request)) as events:
            started = await anext(events)
            assert isinstance(started, RunStarted)
            agent = place.pid(started.sandbox)
            os.kill(agent, signal.SIGSTOP)
            end = await anext(events)
    assert isinstance(end, RunFinished)
    assert (end.status, end.exit_code) == ("timed_out", 124)
    assert end.duration_ms < 3000
    assert not Path(f"/proc/{agent}").exists()


async def test_a_fifo_in_the_place_of_a_file_is_refused_at_once(runner: Runner):
    await runner.shell("mkfifo fifo", workspace="fifo")
    with pytest.raises(InvalidArguments, match="fifo"):
        await runner.shell("true", workspace="fifo", files={"fifo": b"x"})


async def test_a_cancelled_run_leaves_no_sandbox(engine):
    async with runner_on(engine) as runner:

        async def forever() -> None:
            await runner.python("import time; time.sleep(600)", timeout=300.0)

        tasks = [asyncio.create_task(forever()) for _ in range(4)]
        async with asyncio.timeout(30):
            while len(await engine.list()) < 4:
                await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    assert await engine.list() == []
