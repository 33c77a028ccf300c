"""Attacks on the agent by the programs that it starts, which have its uid. Each must fail, and be survived."""

import pytest

from contract.running import Runner, runner_on

pytestmark = [pytest.mark.anyio, pytest.mark.engines("bubblewrap", "docker")]

ATTACKS = {
    "read its memory": "open('/proc/1/mem', 'rb').read(1)",
    "read its map": "open('/proc/1/maps').read()",
    "read its environment": "open('/proc/1/environ').read()",
    "list its descriptors": "os.listdir('/proc/1/fd')",
    "take its channel": "os.open('/proc/1/fd/1', os.O_WRONLY)",
    "take a descriptor by pidfd": "libc_call(438, os.pidfd_open(1), 0, 0)",
    "trace it": "libc_call(101, 16, 1, 0, 0)",
    "write its memory": "libc_call(311, 1, 0, 0, 0, 0, 0)",
    "change its limits": "__import__('resource').prlimit(1, 7, (0, 0))",
    "change its place in the out-of-memory order": "open('/proc/1/oom_score_adj', 'w').write('1000')",
    "change its code": "open('/opt/airlock/airlock_agent/agent.py', 'a')",
    "write to an inherited descriptor": "any(map(can_write, range(3, 1024))) or refuse()",
}
PRELUDE = """
import ctypes, os
def libc_call(*arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(*arguments) == -1:
        raise OSError(ctypes.get_errno(), 'refused')
def can_write(descriptor):
    try:
        return bool(os.write(descriptor, b'x'))
    except OSError:
        return False
def refuse():
    raise OSError
try:
    {attack}
except OSError as error:
    print('refused')
else:
    print('REACHED')
"""


@pytest.fixture
async def runner(engine):
    async with runner_on(engine) as runner:
        yield runner


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
async def test_the_agent_is_out_of_reach(runner: Runner, attack):
    outcome = await runner.python(PRELUDE.format(attack=attack))
    assert (outcome.stdout, outcome.verdict) == (b"refused\n", ("exited", 0, None)), outcome


async def test_signals_do_not_reach_it(runner: Runner):
    code = (
        "import os, signal\n"
        "for number in sorted(signal.valid_signals()): os.kill(1, number)\n"
        "print('still here')"
    )
    outcome = await runner.python(code)
    assert (outcome.stdout, outcome.verdict) == (b"still here\n", ("exited", 0, None))


async def test_a_program_that_kills_all_kills_only_itself(runner: Runner):
    outcome = await runner.shell("kill -KILL -1; echo survived")
    assert outcome.verdict in {("exited", 0, None), ("signaled", 137, "KILL")}


async def test_frames_on_stdout_are_just_output(runner: Runner):
    code = (
        "import json, struct, sys\n"
        "header = json.dumps({'event': 'exit', 'process': 'x', 'code': 7}).encode()\n"
        "sys.stdout.buffer.write(struct.pack('>II', len(header), 0) + header)\n"
        "sys.exit(3)"
    )
    outcome = await runner.python(code)
    assert outcome.verdict == ("exited", 3, None)
    assert outcome.stdout.endswith(b'"code": 7}')
