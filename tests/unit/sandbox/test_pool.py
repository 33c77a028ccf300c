import asyncio

import pytest

from airlock.errors import EngineUnavailable, SandboxFailed
from airlock.model import Limits, Owner, SandboxSpec, SandboxState
from airlock.sandbox.pool import Pool
from unit.scripted import ScriptedEngine

pytestmark = pytest.mark.anyio

SPEC = SandboxSpec("sb_1", Owner("t"), Limits(1, 1, 1, 1, 1))


async def greet(agent):
    await agent.greet()
    await asyncio.Event().wait()


async def hang_up(agent):
    agent.hang_up()


async def silence(agent):
    await asyncio.Event().wait()


async def test_a_leased_sandbox_is_destroyed_at_the_end_of_the_lease():
    engine = ScriptedEngine(greet)
    pool = Pool(engine)
    async with pool.lease(SPEC) as sandbox:
        assert sandbox.id == "sb_1"
        assert pool.counts() == {"starting": 0, "running": 1, "ending": 0}
    await pool.aclose()
    assert engine.destroyed == ["sb_1"]
    assert pool.counts() == {"starting": 0, "running": 0, "ending": 0}


async def test_a_sandbox_whose_agent_does_not_speak_is_destroyed():
    engine = ScriptedEngine(hang_up)
    pool = Pool(engine)
    with pytest.raises(SandboxFailed):
        async with pool.lease(SPEC):
            pass
    await pool.aclose()
    assert engine.destroyed == ["sb_1"]


async def test_a_caller_who_gives_up_while_it_starts_leaves_nothing():
    engine = ScriptedEngine(silence)
    pool = Pool(engine)

    async def use():
        async with pool.lease(SPEC):
            pass

    task = asyncio.create_task(use())
    while not engine.specs:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await pool.aclose()
    assert engine.destroyed == ["sb_1"]


async def test_start_destroys_what_an_earlier_life_left():
    engine = ScriptedEngine(greet)
    await engine.create(SPEC)
    pool = Pool(engine)
    await pool.start()
    await pool.aclose()
    assert engine.destroyed == ["sb_1"]


async def test_start_does_not_need_the_engine():
    engine = ScriptedEngine(greet)
    engine.failure = EngineUnavailable("away")
    pool = Pool(engine)
    await pool.start()
    await pool.aclose()


async def test_a_destruction_that_fails_is_tried_again():
    engine = ScriptedEngine(greet)
    pool = Pool(engine)
    async with pool.lease(SPEC):
        engine.failure = EngineUnavailable("away")
    while not pool.counts()["ending"]:
        await asyncio.sleep(0)
    engine.failure = None
    await pool.aclose()
    assert engine.destroyed == ["sb_1"]


async def test_an_autopsy_believes_the_engine_only():
    engine = ScriptedEngine(greet)
    pool = Pool(engine)
    await engine.create(SPEC)
    engine.oom_killed = True
    info = await pool.autopsy("sb_1")
    assert info is not None
    assert info.oom_killed
    assert info.state is SandboxState.EXITED
    assert await pool.autopsy("sb_other") is None
    await engine.destroy("sb_1")
