import asyncio
import logging
import struct
from contextlib import asynccontextmanager

import pytest

from airlock.engines.docker.channel import MAX_BLOCK, attach
from airlock.engines.docker.host import DockerHost
from airlock.errors import EngineError, EngineUnavailable, SandboxFailed, SandboxNotFound

pytestmark = pytest.mark.anyio

UPGRADED = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"


def block(stream, data):
    return struct.pack(">BxxxI", stream, len(data)) + data


@pytest.fixture
def socket_path(tmp_path):
    return str(tmp_path / "docker.sock")


@asynccontextmanager
async def daemon(socket_path, script):
    """A daemon that takes one attach request and then does what the script says."""
    requests = []
    ended = asyncio.Event()

    async def serve(reader, writer):
        try:
            requests.append(await reader.readuntil(b"\r\n\r\n"))
            await script(reader, writer)
        finally:
            writer.close()
            ended.set()

    async with await asyncio.start_unix_server(serve, socket_path):
        yield requests
        await ended.wait()


def saying(data):
    async def script(_, writer):
        writer.write(data)
        await writer.drain()

    return script


async def attached(socket_path):
    return await attach(DockerHost("unix://", path=socket_path), "1.41", "blue-sb_1")


async def read_all(channel):
    data = b""
    while more := await channel.read():
        data += more
    return data


async def test_it_asks_for_all_three_streams_and_an_upgrade(socket_path):
    async with daemon(socket_path, saying(UPGRADED)) as requests:
        channel = await attached(socket_path)
        await channel.aclose()
    line, *headers = requests[0].decode().split("\r\n")
    assert line == "POST /v1.41/containers/blue-sb_1/attach?stream=1&stdin=1&stdout=1&stderr=1 HTTP/1.1"
    assert {"Connection: Upgrade", "Upgrade: tcp"} <= set(headers)


async def test_stdout_comes_through_and_stderr_goes_to_the_log(socket_path, caplog):
    blocks = block(1, b"one") + block(2, b"oh no") + block(1, b"") + block(1, b"two")
    async with daemon(socket_path, saying(UPGRADED + blocks)):
        channel = await attached(socket_path)
        assert await read_all(channel) == b"onetwo"
        assert await channel.read() == b""
        await channel.aclose()
    assert [record.getMessage() for record in caplog.records] == ["blue-sb_1: the agent complains: b'oh no'"]


async def test_blocks_may_arrive_in_pieces(socket_path):
    async def script(_, writer):
        for byte in UPGRADED + block(1, b"abc") + block(1, b"def"):
            writer.write(bytes([byte]))
            await writer.drain()

    async with daemon(socket_path, script):
        channel = await attached(socket_path)
        assert await read_all(channel) == b"abcdef"
        await channel.aclose()


async def test_a_cancelled_read_loses_nothing(socket_path):
    more = asyncio.Event()

    async def script(_, writer):
        writer.write(UPGRADED + block(1, b"abcdef")[:-3])
        await more.wait()
        writer.write(b"def")

    async with daemon(socket_path, script):
        channel = await attached(socket_path)
        assert await channel.read() == b"abc"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await channel.read()
        more.set()
        assert await read_all(channel) == b"def"
        await channel.aclose()


async def test_complaints_are_bounded(socket_path, caplog):
    async with daemon(socket_path, saying(UPGRADED + 100 * block(2, b"x" * 1000))):
        channel = await attached(socket_path)
        assert await channel.read() == b""
        await channel.aclose()
    assert sum(len(record.getMessage()) for record in caplog.records) < 10_000


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(b"HTTP/1.1 400 Bad\r\n", id="not a block"),
        pytest.param(struct.pack(">BxxxI", 1, MAX_BLOCK + 1), id="an absurd size"),
        pytest.param(struct.pack(">BxxxI", 3, 4) + b"oops", id="an unknown stream"),
        pytest.param(b"\x01\x00\x00\x07\x00\x00\x00\x01x", id="no zeros"),
    ],
)
async def test_what_is_not_an_attached_stream_ends_it(socket_path, caplog, garbage):
    async with daemon(socket_path, saying(UPGRADED + block(1, b"fine") + garbage + bytes(100))):
        channel = await attached(socket_path)
        assert await read_all(channel) == b"fine"
        assert await channel.read() == b""
        await channel.aclose()
    assert caplog.records[-1].levelno == logging.ERROR


@pytest.mark.parametrize("cut", [3, 8, 10])
async def test_an_end_in_the_middle_is_an_end(socket_path, cut):
    async with daemon(socket_path, saying(UPGRADED + block(1, b"abcd")[:cut])):
        channel = await attached(socket_path)
        assert await read_all(channel) == b"abcd"[: max(0, cut - 8)]
        await channel.aclose()


async def test_what_is_written_arrives_as_it_is(socket_path):
    async def script(reader, writer):
        writer.write(UPGRADED)
        writer.write(block(1, await reader.readexactly(5)))

    async with daemon(socket_path, script):
        channel = await attached(socket_path)
        await channel.write(b"he")
        await channel.write(b"llo")
        assert await channel.read() == b"hello"
        await channel.aclose()


async def test_a_write_waits_for_a_slow_reader(socket_path):
    read_on = asyncio.Event()

    async def script(reader, writer):
        writer.write(UPGRADED)
        await read_on.wait()
        await reader.readexactly(1 << 22)

    async with daemon(socket_path, script):
        channel = await attached(socket_path)
        writing = asyncio.create_task(channel.write(bytes(1 << 22)))
        done, _ = await asyncio.wait({writing}, timeout=0.05)
        assert not done
        read_on.set()
        await writing
        await channel.aclose()


async def test_a_slow_reader_holds_the_other_side_back(socket_path):
    sent = asyncio.Event()

    async def script(_, writer):
        writer.transport.set_write_buffer_limits(high=0)
        writer.write(UPGRADED + 64 * block(1, bytes(1 << 16)))
        await writer.drain()
        sent.set()

    async with daemon(socket_path, script):
        channel = await attached(socket_path)
        assert await channel.read()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await sent.wait()
        await read_all(channel)
        assert sent.is_set()
        await channel.aclose()


async def test_writing_to_what_is_gone_is_an_error(socket_path):
    async with daemon(socket_path, saying(UPGRADED)):
        channel = await attached(socket_path)
        assert await channel.read() == b""
    with pytest.raises(EngineUnavailable):
        await channel.write(b"hello?")
    await channel.aclose()


async def test_writing_to_what_has_hung_up_one_way_is_an_error(socket_path):
    async def script(reader, writer):
        writer.write(UPGRADED)
        writer.write_eof()
        await reader.read()

    async with daemon(socket_path, script):
        channel = await attached(socket_path)
        assert await channel.read() == b""
        with pytest.raises(EngineUnavailable):
            await channel.write(b"hello?")
        await channel.aclose()


async def test_closing_twice_ends_a_read_under_way(socket_path):
    async def script(reader, writer):
        writer.write(UPGRADED)
        assert await reader.read() == b""

    async with daemon(socket_path, script):
        channel = await attached(socket_path)
        reading = asyncio.create_task(channel.read())
        await asyncio.sleep(0)
        await channel.aclose()
        assert await reading == b""
        await channel.aclose()
        with pytest.raises(EngineUnavailable):
            await channel.write(b"x")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"HTTP/1.1 404 Not Found\r\n\r\n", SandboxNotFound),
        (b"HTTP/1.1 409 Conflict\r\n\r\n", SandboxFailed),
        (b"HTTP/1.1 500 Internal Server Error\r\n\r\n", EngineUnavailable),
        (b"HTTP/1.1 200 OK\r\n\r\n", EngineError),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", EngineError),
        (b"HTTP/1.1 " + b"9" * 5000 + b" Nine\r\n\r\n", EngineError),
        (b"", ConnectionError),
        (b"HTTP/1.1 101", ConnectionError),
        (b"x" * 200_000, ConnectionError),
    ],
)
async def test_a_refusal_is_one_of_our_errors(socket_path, answer, error):
    async def script(reader, writer):
        writer.write(answer)
        writer.write_eof()
        await reader.read()

    async with daemon(socket_path, script):
        with pytest.raises(error) as refusal:
            await attached(socket_path)
        assert type(refusal.value) is error
