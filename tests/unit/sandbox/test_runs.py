import asyncio
from contextlib import aclosing

import pytest

from airlock.errors import InvalidArguments, LanguageUnavailable, SandboxNotFound, TooManyRuns
from airlock.model import (
    Code,
    Command,
    Limits,
    Owner,
    RunFinished,
    RunOutput,
    RunRequest,
    RunStarted,
    SandboxState,
    Status,
)
from airlock.sandbox.link import Exit
from airlock.sandbox.pool import Pool
from airlock.sandbox.runs import Runs, Verdict, judge
from airlock.settings import Settings
from unit.scripted import ScriptedEngine

pytestmark = pytest.mark.anyio

LIMITS = Limits(cpus=1, memory_bytes=1 << 20, pids=9, tmp_bytes=1 << 20, output_bytes=100)
ALICE = Owner("acme", "alice")


def request(**changes) -> RunRequest:
    values = {"program": Code("python", b"print(1)"), "timeout": 5.0, "limits": LIMITS, **changes}
    return RunRequest(**values)


async def run(engine: ScriptedEngine, asked: RunRequest | None = None, **settings) -> list:
    pool = Pool(engine, Settings())
    runs = Runs(pool, Settings(**settings))
    try:
        async with aclosing(runs.events(ALICE, asked or request())) as events:
            return [event async for event in events]
    finally:
        await pool.aclose()


async def print_1(agent):
    start = await agent.begin()
    agent.output(start, "stdout", 0, b"1\n")
    agent.exit(start, stdout=2)


async def test_a_run_from_start_to_verdict():
    engine = ScriptedEngine(print_1)
    started, output, finished = await run(engine)
    assert isinstance(started, RunStarted)
    assert output == RunOutput("stdout", 0, b"1\n")
    assert isinstance(finished, RunFinished)
    assert (finished.status, finished.exit_code, finished.signal) == (Status.EXITED, 0, None)
    assert (finished.stdout_bytes, finished.truncated) == (2, False)
    assert finished.run_id == started.run_id
    assert engine.destroyed == [started.sandbox]


async def test_the_sandbox_is_the_owners_and_has_an_end():
    engine = ScriptedEngine(print_1)
    await run(engine, request(workspace="proj"))
    (spec,) = engine.specs
    assert spec.owner == ALICE
    assert spec.workspace.owner == ALICE
    assert spec.workspace.name == "proj"
    assert spec.limits == LIMITS
    assert spec.expires_at is not None


async def test_what_the_agent_is_told():
    told = {}

    async def script(agent):
        await agent.greet()
        for _ in range(2):
            write = await agent.expect("write")
            told[write.header["path"]] = write.body
            agent.say({"event": "reply", "ref": write.header["ref"]})
        start = await agent.expect("start")
        told.update(start.header, code=start.body)
        agent.say({"event": "reply", "ref": start.header["ref"]})
        told["stdin"] = (await agent.expect("stdin")).body
        await agent.expect("close_stdin")
        agent.exit(start)

    asked = request(files={"a": b"1", "b": b"2"}, stdin=b"in", args=["x"], env={"K": "v"}, cwd="sub")
    await run(ScriptedEngine(script), asked, kill_grace=0.5)
    assert (told["a"], told["b"], told["stdin"], told["code"]) == (b"1", b"2", b"in", b"print(1)")
    assert (told["args"], told["env"], told["cwd"]) == (["x"], {"K": "v"}, "sub")
    assert (told["timeout"], told["grace"], told["language"]) == (5.0, 0.5, "python")
    assert (told["output"]["head"], told["output"]["tail"]) == (50, 50)


async def test_a_watched_run_sends_all_of_its_limit_at_once():
    bounds = {}

    async def script(agent):
        start = await agent.begin()
        bounds.update(start.header["output"])
        agent.exit(start)

    await run(ScriptedEngine(script), request(live=True))
    assert (bounds["head"], bounds["tail"]) == (100, 50)


async def test_a_command_is_an_argv():
    async def script(agent):
        start = await agent.begin()
        assert start.header["argv"] == ["ls", "-l"]
        assert "language" not in start.header
        agent.exit(start)

    events = await run(ScriptedEngine(script), request(program=Command(["ls", "-l"])))
    assert events[-1].status is Status.EXITED


async def test_output_that_was_not_kept_makes_it_truncated():
    async def script(agent):
        start = await agent.begin()
        agent.output(start, "stdout", 0, b"x" * 50)
        agent.exit(start, stdout=5000)

    finished = (await run(ScriptedEngine(script)))[-1]
    assert finished.truncated
    assert finished.stdout_bytes == 5000


@pytest.mark.parametrize(
    ("state", "oom", "status", "code"),
    [
        (SandboxState.EXITED, False, Status.KILLED, None),
        (SandboxState.EXITED, True, Status.OOM_KILLED, 137),
        (SandboxState.RUNNING, False, Status.LOST, None),
    ],
)
async def test_a_lost_link_is_judged_by_what_the_engine_says(state, oom, status, code):
    async def script(agent):
        start = await agent.begin()
        agent.output(start, "stdout", 0, b"some")
        agent.hang_up()

    engine = ScriptedEngine(script)
    engine.state_after, engine.oom_killed = state, oom
    finished = (await run(engine))[-1]
    assert (finished.status, finished.exit_code) == (status, code)
    assert finished.stdout_bytes == 4
    assert finished.usage is None


async def test_a_sandbox_that_dies_of_the_program_before_it_says_so_is_a_result():
    async def script(agent):
        await agent.greet()
        await agent.expect("start")
        agent.hang_up()

    engine = ScriptedEngine(script)
    engine.oom_killed = True
    finished = (await run(engine))[-1]
    assert (finished.status, finished.exit_code) == (Status.OOM_KILLED, 137)


async def test_a_silent_agent_does_not_outlive_the_deadline():
    async def script(agent):
        await agent.begin()
        await asyncio.Event().wait()

    engine = ScriptedEngine(script)
    finished = (await run(engine, request(timeout=0.05), kill_grace=0))[-1]
    assert (finished.status, finished.exit_code) == (Status.TIMED_OUT, 124)
    assert engine.destroyed


async def test_a_closed_generator_kills_the_run():
    async def script(agent):
        await agent.begin()
        await asyncio.Event().wait()

    engine = ScriptedEngine(script)
    pool = Pool(engine, Settings())
    async with aclosing(Runs(pool, Settings()).events(ALICE, request())) as events:
        assert isinstance(await anext(events), RunStarted)
    await pool.aclose()
    assert len(engine.destroyed) == 1


async def test_a_refused_start_is_an_error_and_leaves_nothing():
    async def script(agent):
        await agent.greet()
        start = await agent.expect("start")
        error = {"code": "INVALID_ARGUMENTS", "message": "cwd is not there"}
        agent.say({"event": "reply", "ref": start.header["ref"], "error": error})

    engine = ScriptedEngine(script)
    with pytest.raises(InvalidArguments, match="cwd"):
        await run(engine)
    assert len(engine.destroyed) == 1


async def test_a_language_that_the_image_lacks_is_an_error():
    async def script(agent):
        await agent.greet()

    with pytest.raises(LanguageUnavailable):
        await run(ScriptedEngine(script), request(program=Code("javascript", b"")))


async def test_a_sandbox_that_nobody_made_is_not_found():
    engine = ScriptedEngine(print_1)
    with pytest.raises(SandboxNotFound):
        await run(engine, request(sandbox="sb_x"))
    assert not engine.specs


async def test_a_tenant_over_its_limit_is_refused_before_anything_is_made():
    async def script(agent):
        await agent.begin()
        await asyncio.Event().wait()

    engine = ScriptedEngine(script)
    pool = Pool(engine, Settings())
    runs = Runs(pool, Settings(max_runs_per_tenant=1))
    async with aclosing(runs.events(ALICE, request())) as first:
        await anext(first)
        with pytest.raises(TooManyRuns):
            await anext(runs.events(ALICE, request()))
    await pool.aclose()
    assert len(engine.specs) == 1


def end(**changes) -> Exit:
    values = {"code": 0, "signal": None, "reason": None, "cpu_ms": 0.0, "peak_memory_bytes": 0}
    return Exit(**{**values, "stdout_bytes": 0, "stderr_bytes": 0, **changes})


@pytest.mark.parametrize(
    ("last_word", "verdict"),
    [
        (end(), Verdict(Status.EXITED, 0, None)),
        (end(code=3), Verdict(Status.EXITED, 3, None)),
        (end(code=None, signal=11), Verdict(Status.SIGNALED, 139, "SEGV")),
        (end(code=None, signal=40), Verdict(Status.SIGNALED, 168, "40")),
        (end(code=0, reason="timed_out"), Verdict(Status.TIMED_OUT, 124, None)),
        (end(code=None, signal=9, reason="timed_out"), Verdict(Status.TIMED_OUT, 124, "KILL")),
        (end(code=1, reason="oom_killed"), Verdict(Status.OOM_KILLED, 137, "KILL")),
        (end(code=1, reason="disk_full"), Verdict(Status.DISK_FULL, 1, None)),
        (end(code=None, signal=9, reason="output_limit"), Verdict(Status.OUTPUT_LIMIT, 137, "KILL")),
        (end(code=None, signal=9, reason="killed"), Verdict(Status.KILLED, 137, "KILL")),
    ],
)
def test_judgement(last_word, verdict):
    assert judge(last_word) == verdict
