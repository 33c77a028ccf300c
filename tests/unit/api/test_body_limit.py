from collections.abc import AsyncIterator

import httpx
import pytest

from airlock.settings import Settings
from unit.api.serving import CODE, ScriptedRuns, calling, calling_over_tcp, new_app

pytestmark = pytest.mark.anyio


@pytest.fixture
def app(settings: Settings):
    return new_app(Settings(data_dir=settings.data_dir, max_body_bytes=100))


def is_too_large(response: httpx.Response) -> bool:
    return (response.status_code, response.json()["error"]["code"]) == (413, "BODY_TOO_LARGE")


async def test_what_fits_is_taken(client: httpx.AsyncClient):
    assert (await client.post("/v1/run_code", json=CODE)).status_code == 200
    exactly = b'{"language": "python", "code": ""}'.ljust(100)
    assert (await client.post("/v1/run_code", content=exactly)).status_code == 200


async def test_a_declared_length_is_refused_before_anything_is_read(app, runs: ScriptedRuns):
    async def never_asked_for() -> AsyncIterator[bytes]:
        raise AssertionError("the body was read")
        yield b""

    async with calling(app, runs) as client:
        headers = {"Content-Length": "101"}
        assert is_too_large(await client.post("/v1/run_code", content=never_asked_for(), headers=headers))


async def test_a_chunked_body_is_counted(app, runs: ScriptedRuns):
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(1000):
            sent += 60
            yield b" " * 60

    async with calling(app, runs) as client:
        assert is_too_large(await client.post("/v1/run_code", content=endless()))
    assert sent <= 180


async def test_over_a_socket_the_answer_arrives(app, runs: ScriptedRuns):
    async with calling_over_tcp(app, runs) as client:
        assert is_too_large(await client.post("/v1/run_code", content=b" " * 3_000_000))
        assert (await client.get("/healthz")).status_code == 200
