import asyncio
import socket

import pytest

from airlock.engines.bubblewrap import channel
from airlock.errors import EngineUnavailable

pytestmark = pytest.mark.anyio


@pytest.fixture
def directory(tmp_path):
    """One whose path is too long for a socket's address."""
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    return deep


@pytest.fixture
def listener(directory):
    with channel.listen(directory, "agent.sock") as listener:
        yield listener


@pytest.fixture
async def ends(directory, listener):
    """Our end and the agent's."""
    ours = await channel.connect(directory, "agent.sock")
    theirs, _ = listener.accept()
    with theirs:
        theirs.settimeout(10)
        yield ours, theirs
    await ours.aclose()


async def test_bytes_go_both_ways(ends):
    ours, theirs = ends
    await ours.write(b"to the agent")
    assert theirs.recv(100) == b"to the agent"
    theirs.sendall(b"from the agent")
    assert await ours.read() == b"from the agent"


async def test_a_slow_agent_makes_the_writer_wait(ends):
    ours, theirs = ends
    writing = asyncio.create_task(ours.write(bytes(8 << 20)))
    await asyncio.wait({writing}, timeout=0.05)
    assert not writing.done()
    loop = asyncio.get_running_loop()
    theirs.setblocking(False)
    received = 0
    while received < 8 << 20:
        received += len(await loop.sock_recv(theirs, 1 << 20))
    await writing


async def test_the_agents_end_is_the_end(ends):
    ours, theirs = ends
    theirs.sendall(b"last")
    theirs.close()
    assert await ours.read() == b"last"
    assert await ours.read() == b""
    with pytest.raises(EngineUnavailable):
        await ours.write(b"x")


async def test_a_connection_that_nobody_took_ends_with_the_agent(directory, listener):
    ours = await channel.connect(directory, "agent.sock")
    await ours.write(b"hello?")
    listener.close()
    assert await ours.read() == b""
    await ours.aclose()


async def test_closed_twice(ends):
    ours, theirs = ends
    await ours.aclose()
    await ours.aclose()
    assert theirs.recv(1) == b""
    assert await ours.read() == b""


async def test_no_agent_no_connection(directory, listener):
    listener.close()
    with pytest.raises(ConnectionRefusedError):
        await channel.connect(directory, "agent.sock")
    with pytest.raises(FileNotFoundError):
        await channel.connect(directory / "none", "agent.sock")


async def test_an_agent_that_takes_no_connections_blocks_nobody(directory, listener):
    taken = [await channel.connect(directory, "agent.sock") for _ in range(channel.BACKLOG + 1)]
    with pytest.raises(BlockingIOError):
        await channel.connect(directory, "agent.sock")
    for each in taken:
        await each.aclose()


def test_a_socket_that_can_not_be_made_leaves_nothing_open(directory, listener):
    with pytest.raises(OSError, match="in use"):
        channel.listen(directory, "agent.sock")
    assert isinstance(listener, socket.socket)
