import asyncio

import pytest

from airlock.errors import EngineUnavailable, SandboxFailed
from airlock.model import Limits, Owner, SandboxSpec, SandboxState
from airlock.sandbox.sandboxes import Sandboxes
from unit.scripted import ScriptedEngine, greet, hang_up, silence

pytestmark = pytest.mark.anyio

SPEC = SandboxSpec("sb_1", Owner("t"), Limits(1, 1, 1, 1, 1))


async def test_what_is_made_can_be_spoken_to_until_it_is_discarded():
    engine = ScriptedEngine(greet)
    sandboxes = Sandboxes(engine)
    sandbox = await sandboxes.make(SPEC)
    assert sandbox.id == "sb_1"
    assert sandbox.is_alive
    sandboxes.discard(sandbox)
    await sandboxes.aclose()
    assert engine.destroyed == ["sb_1"]
    assert not sandbox.is_alive
    assert (sandboxes.starting, sandboxes.ending) == (0, 0)


async def test_a_sandbox_whose_agent_does_not_speak_is_destroyed():
    engine = ScriptedEngine(hang_up)
    sandboxes = Sandboxes(engine)
    with pytest.raises(SandboxFailed):
        await sandboxes.make(SPEC)
    await sandboxes.aclose()
    assert engine.destroyed == ["sb_1"]


async def test_a_caller_who_gives_up_while_it_starts_leaves_nothing():
    engine = ScriptedEngine(silence)
    sandboxes = Sandboxes(engine)
    making = asyncio.create_task(sandboxes.make(SPEC))
    while not engine.specs:
        await asyncio.sleep(0)
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    await sandboxes.aclose()
    assert engine.destroyed == ["sb_1"]


async def test_what_an_earlier_life_left_is_destroyed():
    engine = ScriptedEngine(greet)
    await engine.create(SPEC)
    sandboxes = Sandboxes(engine)
    await sandboxes.start()
    await sandboxes.aclose()
    assert engine.destroyed == ["sb_1"]


async def test_an_engine_that_is_away_at_the_start_is_no_failure():
    engine = ScriptedEngine(greet)
    engine.failure = EngineUnavailable("away")
    sandboxes = Sandboxes(engine)
    await sandboxes.start()
    await sandboxes.aclose()


async def test_a_destruction_that_fails_is_tried_again():
    engine = ScriptedEngine(greet)
    sandboxes = Sandboxes(engine)
    sandbox = await sandboxes.make(SPEC)
    engine.failure = EngineUnavailable("away")
    sandboxes.discard(sandbox)
    while not sandboxes.ending:
        await asyncio.sleep(0)
    engine.failure = None
    await sandboxes.aclose()
    assert engine.destroyed == ["sb_1"]


async def test_an_autopsy_believes_the_engine_only():
    engine = ScriptedEngine(greet)
    sandboxes = Sandboxes(engine)
    await engine.create(SPEC)
    engine.oom_killed = True
    info = await sandboxes.autopsy("sb_1")
    assert info is not None
    assert info.oom_killed
    assert info.state is SandboxState.EXITED
    assert await sandboxes.autopsy("sb_other") is None
    await engine.destroy("sb_1")


async def test_a_link_that_ends_badly_does_not_keep_its_sandbox():
    engine = ScriptedEngine(greet)
    sandboxes = Sandboxes(engine)
    sandbox = await sandboxes.make(SPEC)
    engine.agent("sb_1").say({"event": "exit", "process": "x", "cpu_ms": 10**400})
    sandboxes.discard(sandbox)
    sandboxes.discard(sandbox)
    await sandboxes.aclose()
    assert engine.destroyed == ["sb_1"]
