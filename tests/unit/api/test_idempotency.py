import asyncio
import time
from pathlib import Path

import httpx
import pytest

from airlock.errors import EngineUnavailable, SandboxNotFound
from airlock.model import RunOutput
from airlock.settings import Settings
from unit.api.serving import CODE, PRINTS_ONE, STARTED, ScriptedRuns, calling, events_of, finished, new_app

pytestmark = pytest.mark.anyio

KEY = {"Idempotency-Key": "once"}
STREAM = {"Accept": "text/event-stream"}


def code_of(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


async def test_the_same_call_runs_once(client: httpx.AsyncClient, runs: ScriptedRuns):
    first = await client.post("/v1/run_code", json=CODE, headers=KEY)
    runs.script = (STARTED, finished(exit_code=9))
    second = await client.post("/v1/run_code", json=CODE, headers=KEY)
    assert second.status_code == 200
    assert second.json() == first.json()
    assert len(runs.asked) == 1


async def test_white_space_and_defaults_make_no_other_body(client: httpx.AsyncClient, runs: ScriptedRuns):
    await client.post("/v1/run_code", json=CODE, headers=KEY)
    again = b'{ "code": "print(1)",\n "language": "python", "env": {} }'
    assert (await client.post("/v1/run_code", content=again, headers=KEY)).status_code == 200
    assert len(runs.asked) == 1


async def test_another_body_is_a_conflict(client: httpx.AsyncClient, runs: ScriptedRuns):
    await client.post("/v1/run_code", json=CODE, headers=KEY)
    response = await client.post("/v1/run_code", json=CODE | {"code": "2"}, headers=KEY)
    assert code_of(response) == (409, "IDEMPOTENCY_CONFLICT")
    assert len(runs.asked) == 1


async def test_a_key_means_nothing_on_another_route(client: httpx.AsyncClient, runs: ScriptedRuns):
    await client.post("/v1/run_code", json=CODE, headers=KEY)
    assert (await client.post("/v1/run_command", json={"command": "ls"}, headers=KEY)).status_code == 200
    assert len(runs.asked) == 2


async def test_a_key_means_nothing_to_another_tenant_or_user(settings: Settings, runs: ScriptedRuns):
    keyed = Settings(data_dir=settings.data_dir, api_keys="a:acme,b:other,c:acme:carol")
    async with calling(new_app(keyed), runs) as client:
        for key in "abc":
            await client.post("/v1/run_code", json=CODE, headers=KEY | {"X-API-Key": key})
    assert len(runs.asked) == 3


async def test_the_second_waits_for_the_first(client: httpx.AsyncClient, runs: ScriptedRuns):
    goes_on = asyncio.Event()
    runs.script = (STARTED, goes_on, *PRINTS_ONE[1:])
    calls = [asyncio.create_task(client.post("/v1/run_code", json=CODE, headers=KEY)) for _ in range(5)]
    await runs.begun.wait()
    other = await client.post("/v1/run_code", json=CODE | {"code": "2"}, headers=KEY)
    assert code_of(other) == (409, "IDEMPOTENCY_CONFLICT")
    goes_on.set()
    answers = [(await call).json() for call in calls]
    assert answers == [answers[0]] * 5
    assert len(runs.asked) == 1


async def test_the_answer_outlives_the_service(settings: Settings, runs: ScriptedRuns):
    async with calling(new_app(settings), runs) as client:
        first = await client.post("/v1/run_code", json=CODE, headers=KEY)
    async with calling(new_app(settings), runs) as client:
        second = await client.post("/v1/run_code", json=CODE, headers=KEY)
    assert second.json() == first.json()
    assert len(runs.asked) == 1


async def test_a_stream_is_replayed_as_a_stream_and_plainly(client: httpx.AsyncClient, runs: ScriptedRuns):
    runs.script = (
        STARTED,
        RunOutput("stdout", 0, b"1"),
        RunOutput("stderr", 0, b"2"),
        RunOutput("stdout", 1, b"3"),
        finished(stderr_bytes=1),
    )
    first = await client.post("/v1/run_code", json=CODE, headers=KEY | STREAM)
    runs.script = ()
    again = await client.post("/v1/run_code", json=CODE, headers=KEY | STREAM)
    replayed = [event async for event in events_of(again)]
    assert replayed[:3] == [
        ("started", None, {"run_id": "run_1", "sandbox": "sb_1"}),
        ("stdout", "1", {"text": "13", "offset": 0}),
        ("stderr", "2", {"text": "2", "offset": 0}),
    ]
    assert replayed[3][2] == [event async for event in events_of(first)][-1][2]
    plain = await client.post("/v1/run_code", json=CODE, headers=KEY)
    assert plain.json() == replayed[3][2] | {"stdout": "13", "stderr": "2"}


@pytest.mark.parametrize("headers", [KEY, KEY | STREAM])
async def test_a_call_that_was_cut_off_is_lost(
    tcp_client: httpx.AsyncClient, runs: ScriptedRuns, headers: dict[str, str]
):
    runs.script = (STARTED, asyncio.Event())
    call = asyncio.create_task(tcp_client.post("/v1/run_code", json=CODE, headers=headers))
    await runs.begun.wait()
    call.cancel()
    await runs.cut_off.wait()
    response = await tcp_client.post("/v1/run_code", json=CODE, headers=KEY)
    assert code_of(response) == (409, "IDEMPOTENCY_LOST")
    assert len(runs.asked) == 1


async def test_a_call_that_a_crash_cut_off_is_lost(settings: Settings, runs: ScriptedRuns, tmp_path: Path):
    runs.script = (STARTED, asyncio.Event())
    async with calling(new_app(settings), runs) as client:
        call = asyncio.create_task(client.post("/v1/run_code", json=CODE, headers=KEY))
        await runs.begun.wait()
        # A crash leaves what is in the files at that moment, and the next life finds it.
        crashed = tmp_path / "crashed"
        crashed.mkdir()
        for file in settings.data_dir.glob("answers.sqlite*"):
            (crashed / file.name).write_bytes(file.read_bytes())
        call.cancel()
    async with calling(new_app(Settings(data_dir=crashed)), runs) as client:
        response = await client.post("/v1/run_code", json=CODE, headers=KEY)
    assert code_of(response) == (409, "IDEMPOTENCY_LOST")
    assert "new key" in response.json()["error"]["message"]
    assert len(runs.asked) == 1


async def test_an_error_that_may_pass_is_not_kept(client: httpx.AsyncClient, runs: ScriptedRuns):
    for fault in (EngineUnavailable("away"), RuntimeError("a bug")):
        runs.script = (fault,)
        assert (await client.post("/v1/run_code", json=CODE, headers=KEY)).status_code >= 500
    runs.script = PRINTS_ONE
    assert (await client.post("/v1/run_code", json=CODE, headers=KEY)).status_code == 200


async def test_a_program_that_was_begun_is_never_run_again(client: httpx.AsyncClient, runs: ScriptedRuns):
    runs.script = (STARTED, EngineUnavailable("away"))
    assert (await client.post("/v1/run_code", json=CODE, headers=KEY)).status_code == 503
    runs.script = PRINTS_ONE
    assert code_of(await client.post("/v1/run_code", json=CODE, headers=KEY)) == (409, "IDEMPOTENCY_LOST")
    assert len(runs.asked) == 1


async def test_an_error_that_would_come_again_is_kept(client: httpx.AsyncClient, runs: ScriptedRuns):
    runs.script = (SandboxNotFound("no such sandbox", details={"sandbox": "sb_9"}),)
    first = await client.post("/v1/run_code", json=CODE, headers=KEY | {"X-Request-ID": "r"})
    runs.script = PRINTS_ONE
    second = await client.post("/v1/run_code", json=CODE, headers=KEY | {"X-Request-ID": "r"})
    assert code_of(second) == (404, "SANDBOX_NOT_FOUND")
    assert second.json() == first.json()
    assert len(runs.asked) == 1


async def test_old_entries_go(
    client: httpx.AsyncClient, runs: ScriptedRuns, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    await client.post("/v1/run_code", json=CODE, headers=KEY)
    long_after = time.time() + settings.idempotency_ttl + 1
    monkeypatch.setattr("airlock.api.answer_store.time.time", lambda: long_after)
    await client.post("/v1/run_code", json=CODE, headers=KEY)
    assert len(runs.asked) == 2


@pytest.mark.parametrize("key", ["", "x" * 256, "caf\xe9"])
async def test_a_bad_key_is_refused(client: httpx.AsyncClient, key: str):
    headers = {"Idempotency-Key": key.encode("latin-1")}
    response = await client.post("/v1/run_code", json=CODE, headers=headers)
    assert code_of(response) == (400, "INVALID_ARGUMENTS")


async def test_only_we_can_read_the_answers(client: httpx.AsyncClient, settings: Settings):
    assert (settings.data_dir / "answers.sqlite").stat().st_mode & 0o777 == 0o600
