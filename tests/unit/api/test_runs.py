import asyncio

import httpx
import pytest

from airlock.errors import EngineUnavailable, LanguageUnavailable, TooManyRuns
from airlock.model import Code, Command, Owner, RunOutput, Status
from unit.api.serving import CODE, STARTED, ScriptedRuns, events_of, finished

pytestmark = pytest.mark.anyio

STREAM = {"Accept": "text/event-stream"}
ANSWER = {
    "status": "exited",
    "exit_code": 0,
    "signal": None,
    "stdout": "1\n",
    "stderr": "",
    "truncated": False,
    "output_bytes": {"stdout": 2, "stderr": 0},
    "duration_ms": 3.1,
    "usage": {"cpu_ms": 2.0, "peak_memory_bytes": 9000000},
    "run_id": "run_1",
    "sandbox": "sb_1",
    "workspace": None,
    "engine": "scripted",
}
EXITED = {key: value for key, value in ANSWER.items() if key not in ("stdout", "stderr")}


async def test_run_code_answers_how_the_program_ended(client: httpx.AsyncClient, runs: ScriptedRuns):
    response = await client.post("/v1/run_code", json=CODE)
    assert (response.status_code, response.json()) == (200, ANSWER)
    owner, request = runs.asked[0]
    assert owner == Owner("default")
    assert request.program == Code("python", b"print(1)")
    assert request.timeout == 60
    assert not request.live


async def test_run_command_runs_an_argv(client: httpx.AsyncClient, runs: ScriptedRuns):
    response = await client.post("/v1/run_command", json={"command": ["ls", "-l"]})
    assert response.status_code == 200
    assert runs.asked[0][1].program == Command(("ls", "-l"))
    assert runs.asked[0][1].timeout == 30


async def test_a_failure_of_the_program_is_a_result(client: httpx.AsyncClient, runs: ScriptedRuns):
    runs.script = (STARTED, finished(status=Status.LOST, exit_code=None, usage=None, stdout_bytes=0))
    answer = (await client.post("/v1/run_code", json=CODE)).json()
    assert (answer["status"], answer["exit_code"], answer["usage"]) == ("lost", None, None)


async def test_output_that_was_not_kept_is_marked(client: httpx.AsyncClient, runs: ScriptedRuns):
    runs.script = (
        STARTED,
        RunOutput("stdout", 0, b"head"),
        RunOutput("stdout", 1004, b"tail"),
        finished(stdout_bytes=1008, truncated=True),
    )
    answer = (await client.post("/v1/run_code", json=CODE)).json()
    assert answer["stdout"] == "head\n[1000 bytes left out]\ntail"
    assert answer["truncated"]
    assert answer["output_bytes"]["stdout"] == 1008


@pytest.mark.parametrize("accept", ["application/json", "*/*", "text/event-stream;q=0", "text/html"])
async def test_the_answer_is_plain_unless_a_stream_is_asked_for(client: httpx.AsyncClient, accept: str):
    response = await client.post("/v1/run_code", json=CODE, headers={"Accept": accept})
    assert response.headers["content-type"] == "application/json"


async def test_a_stream_has_every_event(client: httpx.AsyncClient, runs: ScriptedRuns):
    runs.script = (
        STARTED,
        RunOutput("stdout", 0, b"1\n"),
        RunOutput("stderr", 0, b"warning \xe2\x82"),
        RunOutput("stderr", 10, b"\xac!"),
        finished(stderr_bytes=12),
    )
    response = await client.post(
        "/v1/run_code", json=CODE, headers={"Accept": "a/b, text/event-stream;q=0.9"}
    )
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-accel-buffering"] == "no"
    assert [event async for event in events_of(response)] == [
        ("started", None, {"run_id": "run_1", "sandbox": "sb_1"}),
        ("stdout", "1", {"text": "1\n", "offset": 0}),
        ("stderr", "2", {"text": "warning ", "offset": 0}),
        ("stderr", "3", {"text": "€!", "offset": 8}),
        ("exited", "4", EXITED | {"output_bytes": {"stdout": 2, "stderr": 12}}),
    ]
    assert runs.asked[0][1].live


async def test_each_event_is_sent_when_it_happens(tcp_client: httpx.AsyncClient, runs: ScriptedRuns):
    prints, ends = asyncio.Event(), asyncio.Event()
    runs.script = (STARTED, prints, RunOutput("stdout", 0, b"1\n"), ends, finished())
    async with tcp_client.stream("POST", "/v1/run_code", json=CODE, headers=STREAM) as response:
        events = events_of(response)
        assert (await anext(events))[0] == "started"
        prints.set()
        assert (await anext(events))[0] == "stdout"
        ends.set()
        assert (await anext(events))[0] == "exited"
        assert await anext(events, None) is None


@pytest.mark.parametrize("headers", [{}, STREAM])
async def test_an_error_before_the_start_has_its_status(
    client: httpx.AsyncClient, runs: ScriptedRuns, headers: dict[str, str]
):
    runs.script = (TooManyRuns("full", retry_after=1.5),)
    response = await client.post("/v1/run_code", json=CODE, headers=headers)
    assert response.status_code == 429
    assert response.headers["retry-after"] == "2"
    assert response.headers["content-type"] == "application/json"
    assert response.json()["error"]["code"] == "TOO_MANY_RUNS"


async def test_a_language_that_the_image_lacks(client: httpx.AsyncClient, runs: ScriptedRuns):
    runs.script = (LanguageUnavailable("no node here"),)
    response = await client.post("/v1/run_code", json=CODE | {"language": "javascript"})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "LANGUAGE_UNAVAILABLE")


async def test_an_error_after_the_start_is_an_event(client: httpx.AsyncClient, runs: ScriptedRuns):
    runs.script = (STARTED, EngineUnavailable("the daemon is away"))
    response = await client.post("/v1/run_code", json=CODE, headers=STREAM | {"X-Request-ID": "me-1"})
    events = [event async for event in events_of(response)]
    assert [name for name, _, _ in events] == ["started", "error"]
    assert events[1][2]["error"] == {
        "code": "ENGINE_UNAVAILABLE",
        "message": "the daemon is away",
        "details": {},
        "retryable": True,
        "request_id": "me-1",
    }


async def test_a_fault_of_ours_is_not_shown(client: httpx.AsyncClient, runs: ScriptedRuns):
    runs.script = (STARTED, RuntimeError("secret"))
    streamed = await client.post("/v1/run_code", json=CODE, headers=STREAM)
    plain = await client.post("/v1/run_code", json=CODE)
    assert plain.status_code == 500
    for text in (streamed.text, plain.text):
        assert "INTERNAL_ERROR" in text
        assert "secret" not in text


@pytest.mark.parametrize("headers", [{}, STREAM], ids=["plain", "streamed"])
@pytest.mark.parametrize("begins", [(), (STARTED,)], ids=["before the start", "after the start"])
async def test_a_caller_that_hangs_up_cancels_its_run(
    tcp_client: httpx.AsyncClient, runs: ScriptedRuns, headers: dict[str, str], begins: tuple
):
    runs.script = (*begins, asyncio.Event())
    call = asyncio.create_task(tcp_client.post("/v1/run_code", json=CODE, headers=headers))
    await runs.begun.wait()
    call.cancel()
    async with asyncio.timeout(2):
        await runs.cut_off.wait()


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "INVALID_JSON"),
        (b"print(1)", "INVALID_JSON"),
        (b"[" * 100_000, "INVALID_JSON"),
        (b'{"language": "python", "code": "\xff"}', "INVALID_JSON"),
        (b'{"language": "python", "code": "\\ud800"}', "INVALID_JSON"),
        (b'{"language": "python", "code": "", "code": "1"}', "INVALID_JSON"),
        (b'{"language": "python", "code": "", "timeout": NaN}', "INVALID_ARGUMENTS"),
        (b'{"language": "python", "code": "", "timeout": Infinity}', "INVALID_ARGUMENTS"),
        (b'{"language": "python", "code": "", "timeout": 301}', "INVALID_ARGUMENTS"),
        (b'{"language": "python", "code": "", "limits": {"pids": 1e9}}', "INVALID_ARGUMENTS"),
        (b'{"language": "python", "code": "", "files": {"/etc/x": ""}}', "PATH_OUTSIDE_WORKSPACE"),
        (b"[]", "INVALID_ARGUMENTS"),
    ],
    ids=lambda value: value if isinstance(value, str) else str(value[:45]),
)
async def test_a_bad_body_is_refused(client: httpx.AsyncClient, runs: ScriptedRuns, body: bytes, code: str):
    response = await client.post("/v1/run_code", content=body)
    assert (response.status_code, response.json()["error"]["code"]) == (400, code)
    assert not runs.asked


async def test_field_by_field(client: httpx.AsyncClient):
    body = CODE | {"surprise": "x" * 5000, "timeout": -1, "limits": {"cpus": "two"}}
    response = await client.post("/v1/run_code", json=body)
    fields = {row["field"] for row in response.json()["error"]["details"]["fields"]}
    assert fields == {"surprise", "timeout", "limits.cpus"}
    assert len(response.content) < 1000
