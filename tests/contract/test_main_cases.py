"""The main cases of every engine, gVisor included: what any caller relies on."""

import asyncio
from contextlib import aclosing

import pytest

from airlock.model import Code, Command, Limits, RunOutput, RunStarted, SandboxSpec, new_id
from contract.conversation import conversation
from contract.running import LIMITS, OWNER, Runner, runner_on

pytestmark = [pytest.mark.anyio, pytest.mark.engines("bubblewrap", "docker", "gvisor")]


@pytest.fixture
async def runner(engine):
    async with runner_on(engine) as runner:
        yield runner


async def test_python(runner: Runner):
    outcome = await runner.python("print(1)")
    assert (outcome.stdout, outcome.stderr) == (b"1\n", b"")
    assert outcome.verdict == ("exited", 0, None)
    assert outcome.end.usage is not None
    assert outcome.end.usage.peak_memory_bytes > 0


async def test_bash(runner: Runner):
    outcome = await runner.run(Code("bash", b"echo ${BASH_VERSION:+bash} $1; exit 3"), args=["x"])
    assert (outcome.stdout, outcome.verdict) == (b"bash x\n", ("exited", 3, None))


async def test_javascript(runner: Runner):
    code = Code("javascript", b"console.log(require('./data.json').a, process.argv[2])")
    outcome = await runner.run(code, args=["x"], files={"data.json": b'{"a": 7}'})
    assert (outcome.stdout, outcome.verdict) == (b"7 x\n", ("exited", 0, None))


async def test_a_traceback_is_a_result(runner: Runner):
    outcome = await runner.python("1 / 0")
    assert outcome.verdict == ("exited", 1, None)
    assert outcome.stderr.startswith(
        b'Traceback (most recent call last):\n  File "/workspace/main.py", line 1'
    )


async def test_a_command_that_is_not_there(runner: Runner):
    outcome = await runner.run(Command(["no-such-program"]))
    assert outcome.verdict == ("exited", 127, None)
    assert outcome.stderr == b"no-such-program: command not found\n"


async def test_no_stdin_is_end_of_file(runner: Runner):
    assert (await runner.shell("cat; echo end")).stdout == b"end\n"


async def test_stdin_args_env_files_and_cwd(runner: Runner):
    outcome = await runner.shell(
        "cat; cat file; echo $K; pwd",
        stdin=b"in\n",
        files={"a/b/file": b"laid down\n"},
        env={"K": "v"},
        cwd="a/b",
    )
    assert outcome.stdout == b"in\nlaid down\nv\n/workspace/a/b\n"


async def test_a_signal_is_told_apart_from_an_exit(runner: Runner):
    assert (await runner.shell("kill -SEGV $$")).verdict == ("signaled", 139, "SEGV")
    assert (await runner.shell("kill -KILL $$")).verdict == ("signaled", 137, "KILL")


async def test_time_is_up_for_a_program_that_ignores_it(runner: Runner):
    code = "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint('up', flush=True)\ntime.sleep(60)"
    outcome = await runner.python(code, timeout=3.0)
    assert outcome.stdout == b"up\n"
    assert outcome.verdict[:2] == ("timed_out", 124)


async def test_a_program_may_use_its_grace_to_say_goodbye(runner: Runner):
    code = "import signal, sys, time\ndef bye(*_): print('bye'); sys.exit(0)\nsignal.signal(15, bye)\ntime.sleep(60)"
    outcome = await runner.python(code, timeout=3.0)
    assert (outcome.stdout, outcome.verdict) == (b"bye\n", ("timed_out", 124, None))


async def test_output_beyond_its_limit_is_counted_not_kept(runner: Runner):
    code = "import sys\nsys.stdout.write('a' * 10 + 'x' * 5_000_000 + 'z' * 10)"
    outcome = await runner.python(code, limits={"output_bytes": 1000})
    assert outcome.verdict == ("exited", 0, None)
    assert outcome.end.stdout_bytes == 5_000_020
    assert outcome.end.truncated
    assert len(outcome.stdout) == 1000
    assert outcome.stdout.startswith(b"a" * 10)
    assert outcome.stdout.endswith(b"z" * 10)


async def test_there_is_no_network_but_loopback(runner: Runner):
    code = (
        "import os, socket\n"
        "print([name for _, name in socket.if_nameindex() if name != 'lo'])\n"
        "for address in ('192.0.2.1', '127.0.0.1'):\n"
        "    try: socket.create_connection((address, 80), timeout=5)\n"
        "    except OSError as error: print(type(error).__name__)\n"
    )
    interfaces, outside, inside = (await runner.python(code)).stdout.decode().splitlines()
    assert interfaces == "[]"
    assert outside != "TimeoutError"  # refused by the kernel at once, not lost on the way
    assert inside == "ConnectionRefusedError"


async def test_the_root_is_read_only_and_nobody_is_root(runner: Runner):
    code = (
        "import os\n"
        "print(os.getuid(), os.getgid())\n"
        "for path in ('/x', '/usr/x', '/etc/x', '/opt/x', '/dev/x', '/opt/airlock/airlock_agent/x'):\n"
        "    try: open(path, 'w'); print('wrote', path)\n"
        "    except OSError: pass\n"
        "for path in ('/tmp/x', '/workspace/x', '/dev/shm/x'): open(path, 'w')\n"
        "status = dict(line.split(':', 1) for line in open('/proc/self/status'))\n"
        "print(status.get('NoNewPrivs', '1').strip(), int(status['CapEff'], 16))\n"
    )
    assert (await runner.python(code)).stdout == b"1000 1000\n1 0\n"


async def test_a_named_workspace_persists_and_a_private_one_does_not(runner: Runner):
    await runner.shell("echo kept > file", workspace="proj")
    assert (await runner.shell("cat file; ls", workspace="proj")).stdout == b"kept\nfile\n"
    await runner.shell("echo private > file")
    assert (await runner.shell("ls -A")).stdout == b""


async def test_a_program_cannot_lock_the_next_one_out_of_its_workspace(runner: Runner):
    await runner.shell("touch kept; chmod 0 /workspace", workspace="locked")
    assert (await runner.shell("ls", workspace="locked")).stdout == b"kept\n"


async def test_the_callers_path_is_the_programs(runner: Runner):
    outcome = await runner.shell("echo $PATH", env={"PATH": "/workspace/bin:/usr/bin:/bin"})
    assert outcome.stdout == b"/workspace/bin:/usr/bin:/bin\n"


async def test_the_code_leaves_no_file_and_overwrites_none(runner: Runner):
    await runner.shell("echo 'X = 1' > main.py", workspace="code")
    outcome = await runner.python("import main; print(main.X, __file__ != main.__file__)", workspace="code")
    assert outcome.stdout == b"1 True\n"
    assert (await runner.shell("rm -rf __pycache__; ls -A; cat main.py", workspace="code")).stdout == (
        b"main.py\nX = 1\n"
    )


async def test_what_a_program_leaves_running_ends_with_it(engine):
    spec = SandboxSpec(new_id("sb"), OWNER, Limits(**LIMITS))
    await engine.create(spec)
    async with conversation(engine, spec.id) as talk:
        leave = "(setsid sleep 60 &) ; sleep 60 & echo done"
        assert await talk.run("sh", "-c", leave) == (0, b"done\n")
        _, processes = await talk.run(
            "python3", "-c", "import os; print(sum(map(str.isdigit, os.listdir('/proc'))))"
        )
    await engine.destroy(spec.id)
    assert processes == b"2\n"  # the agent, and the one that counts


async def test_a_run_that_is_given_up_leaves_no_code_in_the_workspace(runner: Runner):
    request = runner.request(Code("python", b"print(1, flush=True)\nwhile True: pass"), workspace="given-up")
    async with aclosing(runner.runs.events(OWNER, request)) as events:
        assert isinstance(await anext(events), RunStarted)
        assert isinstance(await anext(events), RunOutput)
    await runner.settle()
    assert (await runner.shell("ls -A", workspace="given-up")).stdout == b""


async def test_runs_side_by_side_do_not_meet(runner: Runner):
    code = "import os; print(os.listdir('/workspace'), sum(p.isdigit() for p in os.listdir('/proc')))"
    outcomes = await asyncio.gather(*(runner.python(code) for _ in range(4)))
    assert {outcome.stdout for outcome in outcomes} == {b"['main.py'] 2\n"}
