"""What every engine must do. Each test leaves nothing behind, or fails."""

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from airlock.engine import Engine
from airlock.errors import AirlockError, EngineUnavailable, SandboxNotFound
from airlock.model import Limits, Owner, SandboxSpec, SandboxState, Workspace, new_id
from airlock.settings import MIB
from contract.conversation import conversation, eventually
from contract.places import Place

pytestmark = pytest.mark.anyio

OWNER = Owner("acme", "ann")
LIMITS = Limits(cpus=0.5, memory_bytes=96 * MIB, pids=33, tmp_bytes=8 * MIB, output_bytes=MIB)
END = 20
"""Seconds within which an end must show."""


def spec(**changes) -> SandboxSpec:
    return replace(SandboxSpec(new_id("sb"), OWNER, LIMITS), **changes)


@pytest.fixture
async def sandbox(engine: Engine):
    info = await engine.create(spec())
    yield info
    await engine.destroy(info.id)


async def test_what_is_made_is_known_until_it_is_destroyed(engine: Engine):
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    wanted = spec(workspace=Workspace(Owner("acme"), "Proj é/1"), expires_at=tomorrow)
    before = datetime.now(UTC)
    info = await engine.create(wanted)
    assert (info.id, info.owner, info.workspace) == (wanted.id, OWNER, wanted.workspace)
    assert (info.state, info.expires_at, info.oom_killed) == (SandboxState.RUNNING, tomorrow, False)
    assert before <= info.created_at <= datetime.now(UTC)
    assert await engine.get(info.id) == info
    assert await engine.list() == [info]
    await engine.destroy(info.id)
    assert await engine.list() == []
    with pytest.raises(SandboxNotFound):
        await engine.get(info.id)
    with pytest.raises(SandboxNotFound):
        await engine.connect(info.id)


async def test_destroying_twice_and_what_never_was(engine: Engine):
    info = await engine.create(spec())
    await asyncio.gather(*(engine.destroy(info.id) for _ in range(3)))
    await engine.destroy(info.id)
    await engine.destroy(new_id("sb"))


@pytest.mark.parametrize("sandbox_id", ["sb_0", "", ".", "../sb_0", "a/b", "sb_\0", "x" * 5000, "sb_é"])
async def test_what_never_was_is_not_found(engine: Engine, sandbox_id):
    with pytest.raises(SandboxNotFound):
        await engine.get(sandbox_id)
    with pytest.raises(SandboxNotFound):
        await engine.connect(sandbox_id)
    await engine.destroy(sandbox_id)


async def test_the_agent_says_hello(engine: Engine, sandbox):
    channel = await engine.connect(sandbox.id)
    await channel.aclose()
    async with conversation(engine, sandbox.id) as talk:
        hello = await talk.hello()
    assert hello["protocol"] == 1
    assert "python" in hello["languages"]


async def test_another_connection_works_after_the_first(engine: Engine, sandbox):
    for number in range(3):
        async with conversation(engine, sandbox.id) as talk:
            await talk.write("number", str(number).encode())
            assert await talk.run("cat", "number") == (0, str(number).encode())


async def test_much_goes_both_ways(engine: Engine, sandbox):
    async with conversation(engine, sandbox.id) as talk:
        await talk.write("much", bytes(range(256)) * 16_000)
        code, counted = await talk.run("wc", "-c", "much")
        assert (code, counted.split()[0]) == (0, b"4096000")
        assert await talk.run("head", "-c", "100000", "much") == (0, (bytes(range(256)) * 391)[:100_000])


async def test_the_channel_ends_with_the_sandbox(engine: Engine):
    info = await engine.create(spec())
    async with conversation(engine, info.id) as talk:
        reading = asyncio.create_task(talk.channel.read())
        await engine.destroy(info.id)
        assert await asyncio.wait_for(reading, END) == b""
        assert await talk.channel.read() == b""
        with pytest.raises(EngineUnavailable):
            await talk.channel.write(b"x")


async def test_a_closed_channel_is_at_its_end(engine: Engine, sandbox):
    channel = await engine.connect(sandbox.id)
    reading = asyncio.create_task(channel.read())
    await asyncio.sleep(0)
    await channel.aclose()
    await channel.aclose()
    assert await asyncio.wait_for(reading, END) == b""
    with pytest.raises(EngineUnavailable):
        await channel.write(b"x")
    assert (await engine.get(sandbox.id)).state is SandboxState.RUNNING


async def test_a_cancelled_create_leaves_nothing(engine: Engine):
    started = time.monotonic()
    await engine.destroy((await engine.create(spec())).id)
    whole = time.monotonic() - started
    for step in range(16):
        wanted = spec()
        creating = asyncio.create_task(engine.create(wanted))
        await asyncio.wait({creating}, timeout=whole * step / 16)
        creating.cancel()
        try:
            await engine.destroy((await creating).id)
        except asyncio.CancelledError:
            with pytest.raises(SandboxNotFound):
                await engine.get(wanted.id)
        assert await engine.list() == []


async def test_a_create_that_is_cancelled_again_and_again_leaves_nothing(engine: Engine, place: Place):
    mine = place.engine()
    await mine.check()
    creating = [asyncio.create_task(mine.create(spec())) for _ in range(4)]
    for _ in range(3):
        await asyncio.wait(creating, timeout=0.005)
        for task in creating:
            task.cancel()
    ends = await asyncio.gather(*creating, return_exceptions=True)
    assert [type(end) for end in ends] == [asyncio.CancelledError] * 4
    await mine.aclose()
    assert await engine.list() == []


async def test_many_at_once(engine: Engine):
    wanted = [spec() for _ in range(8)]
    made = await asyncio.gather(*(engine.create(each) for each in wanted))
    assert [info.id for info in made] == [each.id for each in wanted]
    assert sorted(info.id for info in await engine.list()) == sorted(each.id for each in wanted)
    await asyncio.gather(*(engine.destroy(each.id) for each in wanted))


async def test_other_instances_are_none_of_its_business(engine: Engine, place: Place, sandbox):
    other = place.engine(instance="other-instance")
    await other.check()
    assert await other.list() == []
    with pytest.raises(SandboxNotFound):
        await other.get(sandbox.id)
    await other.destroy(sandbox.id)
    await other.aclose()
    assert (await engine.get(sandbox.id)).state is SandboxState.RUNNING


async def test_a_workspace_outlives_its_sandboxes(engine: Engine):
    for number in range(2):
        info = await engine.create(spec(workspace=Workspace(OWNER, "kept")))
        async with conversation(engine, info.id) as talk:
            await talk.write(f"file{number}", b"kept")
            names = b"".join(b"file%d\n" % each for each in range(number + 1))
            assert await talk.run("ls") == (0, names)
        await engine.destroy(info.id)


async def test_workspaces_of_one_name_and_two_owners_are_two(engine: Engine):
    for owner in (OWNER, Owner("acme"), Owner("other", "ann")):
        info = await engine.create(spec(owner=owner, workspace=Workspace(owner, "same")))
        async with conversation(engine, info.id) as talk:
            assert await talk.run("ls") == (0, b"")
            await talk.write("file", b"mine")
        await engine.destroy(info.id)


async def test_a_private_workspace_goes_with_its_sandbox(engine: Engine):
    for _ in range(2):
        info = await engine.create(spec())
        async with conversation(engine, info.id) as talk:
            assert await talk.run("ls", "-A", "/workspace", "/tmp", "/dev/shm") == (
                0,
                b"/dev/shm:\n\n/tmp:\n\n/workspace:\n",
            )
            await talk.write("file", b"private")
            assert await talk.run("touch", "/tmp/x", "/dev/shm/x") == (0, b"")
        await engine.destroy(info.id)


async def test_sandboxes_outlive_the_service(engine: Engine, place: Place):
    first = place.engine()
    await first.check()
    info = await first.create(spec())
    async with conversation(first, info.id) as talk:
        await talk.write("file", b"still here")
    await first.aclose()
    assert await engine.list() == [info]
    assert await engine.get(info.id) == info
    async with conversation(engine, info.id) as talk:
        assert await talk.run("cat", "file") == (0, b"still here")
    await engine.destroy(info.id)


async def test_a_death_from_outside_is_told(engine: Engine, place: Place):
    info = await engine.create(spec())
    async with conversation(engine, info.id) as talk:
        place.kill(info.id)
        assert await asyncio.wait_for(talk.channel.read(), END) == b""

    async def has_ended() -> bool:
        return (await engine.get(info.id)).state is SandboxState.EXITED

    await eventually(has_ended, END)
    assert await engine.list() == [replace(info, state=SandboxState.EXITED)]
    with pytest.raises(AirlockError):
        await asyncio.wait_for(engine.connect(info.id), END)
    await engine.destroy(info.id)
    assert await engine.list() == []


async def test_limits_are_the_kernels(engine: Engine, place: Place, sandbox):
    isolation = (await engine.check()).isolation
    for name in ("memory", "cpu", "pids"):
        assert isolation[name].enforced, isolation[name].how
    limits = place.limits(sandbox.id)
    assert (limits["memory"], limits["both"]) == (str(96 * MIB), str(96 * MIB))
    assert int(limits["quota"]) / int(limits["period"]) == 0.5
    assert limits["pids"] == "33"


async def test_writable_places_have_their_size(engine: Engine, sandbox):
    async with conversation(engine, sandbox.id) as talk:
        code, sizes = await talk.run(
            "df", "--block-size=1", "--output=size", "/tmp", "/workspace", "/dev/shm"
        )
        assert (code, sizes.split()[1:]) == (0, [b"%d" % (8 * MIB)] * 3)


async def test_the_agent_is_locked_in(engine: Engine, place: Place, sandbox):
    """Seen from outside, where the sandbox can't say what it likes."""
    async with conversation(engine, sandbox.id):
        pass  # it is up
    lines = Path(f"/proc/{place.pid(sandbox.id)}/status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines)
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert "0" not in status["Uid"].split() + status["Gid"].split()
    assert status["NSpid"].split()[-1] == "1"


async def test_check_says_what_is_enforced(engine: Engine, engine_name):
    report = await engine.check()
    assert report.engine == engine_name == engine.name
    assert report.version
    assert {"memory", "cpu", "pids", "disk", "network"} <= report.isolation.keys()
    assert all(measure.how for measure in report.isolation.values())
