import asyncio

import pytest

from airlock.errors import PathOutsideWorkspace, SandboxFailed
from airlock.model import RunOutput
from airlock.sandbox.link import AgentLink, Exit, LinkLost
from unit.scripted import ScriptedAgent, ScriptedChannel

pytestmark = pytest.mark.anyio


@pytest.fixture
def agent():
    return ScriptedAgent()


async def opened(agent: ScriptedAgent) -> AgentLink:
    greeting = asyncio.create_task(agent.greet())
    link = await AgentLink.open(ScriptedChannel(agent))
    await greeting
    return link


async def started(agent: ScriptedAgent, max_output: int = 1000):
    link = await opened(agent)
    starting = asyncio.create_task(link.start("p", {}, b"", max_output))
    start = await agent.expect("start")
    agent.say({"event": "reply", "ref": start.header["ref"]})
    return link, start, await starting


async def test_hello_tells_the_languages(agent):
    link = await opened(agent)
    assert link.languages == {"python", "bash"}
    await link.aclose()


async def test_an_agent_of_another_protocol_is_refused(agent):
    agent.say({"event": "hello", "protocol": 99, "languages": []})
    with pytest.raises(SandboxFailed, match="make image"):
        await AgentLink.open(ScriptedChannel(agent))


async def test_an_agent_that_ends_before_hello_is_a_failure_not_a_hang(agent):
    agent.hang_up()
    with pytest.raises(SandboxFailed):
        await AgentLink.open(ScriptedChannel(agent))


async def test_output_and_exit_arrive_in_order(agent):
    link, start, process = await started(agent)
    agent.output(start, "stdout", 0, b"a")
    agent.output(start, "stderr", 0, b"b")
    agent.exit(start, stdout=1, stderr=1)
    assert await process.next() == RunOutput("stdout", 0, b"a")
    assert await process.next() == RunOutput("stderr", 0, b"b")
    assert await process.next() == Exit(0, None, None, 1, 1, 1.5, 9)
    await link.aclose()


async def test_input_is_followed_by_its_end(agent):
    link, _, process = await started(agent)
    await process.feed(b"data")
    assert (await agent.expect("stdin")).body == b"data"
    await agent.expect("close_stdin")
    await process.feed(None)
    await agent.expect("close_stdin")
    await link.aclose()


async def test_a_refusal_comes_as_an_error_of_the_taxonomy(agent):
    link = await opened(agent)
    writing = asyncio.create_task(link.write_file("../x", b""))
    frame = await agent.expect("write")
    error = {"code": "PATH_OUTSIDE_WORKSPACE", "message": "no"}
    agent.say({"event": "reply", "ref": frame.header["ref"], "error": error})
    with pytest.raises(PathOutsideWorkspace, match="no"):
        await writing
    await link.aclose()


async def test_a_lost_channel_is_told_to_all_who_wait(agent):
    link, _, process = await started(agent)
    writing = asyncio.create_task(link.write_file("x", b""))
    await agent.expect("write")
    agent.hang_up()
    with pytest.raises(SandboxFailed):
        await writing
    with pytest.raises(LinkLost):
        await process.next()
    with pytest.raises(SandboxFailed):
        await link.write_file("y", b"")
    await link.aclose()


FORGED = {
    "unknown event": {"event": "surprise"},
    "no event": {},
    "unknown process": {"event": "exit", "process": "other"},
    "unknown reference": {"event": "reply", "ref": 99},
    "unknown stream": {"event": "output", "process": "p", "stream": "stdin", "offset": 0},
    "negative offset": {"event": "output", "process": "p", "stream": "stdout", "offset": -1},
    "offset that is no number": {"event": "output", "process": "p", "stream": "stdout", "offset": "0"},
    "unknown reason": {"event": "exit", "process": "p", "code": 0, "signal": None, "reason": "because"},
    "exit without counts": {"event": "exit", "process": "p", "code": 0, "signal": None, "reason": None},
    "time beyond all numbers": {
        **{"event": "exit", "process": "p", "code": 0, "signal": None, "reason": None},
        **{"stdout": 0, "stderr": 0, "cpu_ms": 10**400, "peak_memory_bytes": 0},
    },
    "output that is none": {"event": "output", "process": "p", "stream": "stdout", "offset": 0},
    "second hello": {"event": "hello", "protocol": 1, "languages": []},
}


@pytest.mark.parametrize("header", FORGED.values(), ids=FORGED.keys())
async def test_an_agent_that_breaks_the_protocol_is_cut_off(agent, header):
    link, _, process = await started(agent)
    agent.say(header)
    with pytest.raises(LinkLost, match="broke the protocol"):
        await process.next()
    await link.aclose()


async def test_more_output_than_allowed_is_cut_off(agent):
    link, start, process = await started(agent, max_output=10)
    agent.output(start, "stdout", 0, b"x" * 10)
    agent.output(start, "stdout", 10, b"x")
    assert isinstance(await process.next(), RunOutput)
    with pytest.raises(LinkLost):
        await process.next()
    await link.aclose()


async def test_a_frame_over_the_limit_is_cut_off(agent):
    link, _, process = await started(agent)
    agent.outbox.put_nowait(b"\xff" * 8)
    with pytest.raises(LinkLost, match="over the limit"):
        await process.next()
    await link.aclose()


async def test_what_is_printed_byte_by_byte_waits_as_one_piece(agent):
    link, start, process = await started(agent)
    for offset in range(100):
        agent.output(start, "stdout", offset, b"x")
    agent.exit(start, stdout=100)
    while agent.outbox.qsize():
        await asyncio.sleep(0)
    assert await process.next() == RunOutput("stdout", 0, b"x" * 100)
    await link.aclose()


async def test_an_agent_is_asked_to_clean_up_before_the_end(agent):
    link, start, _ = await started(agent)
    ending = asyncio.create_task(link.end_programs())
    await agent.expect("kill")
    assert not ending.done()
    agent.exit(start, reason="killed")
    await ending
    await link.aclose()
