import asyncio
import json
import logging

import httpx
import pytest
from fastapi import FastAPI
from starlette.requests import ClientDisconnect

from airlock import errors
from airlock.api.problems import KINDS, Problems, response_to, status_of
from airlock.errors import AirlockError
from unit.api.serving import CODE, STARTED, ScriptedRuns

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.InvalidArguments, 400),
        (errors.InvalidJson, 400),
        (errors.PathOutsideWorkspace, 400),
        (errors.LanguageUnavailable, 400),
        (errors.Unauthorized, 401),
        (errors.Forbidden, 403),
        (errors.SandboxNotFound, 404),
        (errors.MethodNotAllowed, 405),
        (errors.IdempotencyConflict, 409),
        (errors.IdempotencyLost, 409),
        (errors.BodyTooLarge, 413),
        (errors.TooManyRuns, 429),
        (errors.EngineUnavailable, 503),
        (errors.EngineMisconfigured, 503),
        (errors.SandboxFailed, 503),
        (errors.EngineError, 500),
        (errors.InternalError, 500),
    ],
)
async def test_the_table(error: type[AirlockError], status: int):
    assert status_of(error("")) == status


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_retryable_says_when(kind: type[AirlockError]):
    assert ("retry-after" in response_to(kind("")).headers) == kind.retryable
    assert response_to(kind("", retry_after=2.1)).headers["retry-after"] == "3"


async def test_there_is_nothing_there(client: httpx.AsyncClient):
    response = await client.get("/v2/run_code")
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "NOT_FOUND"


async def test_another_method_is_needed(client: httpx.AsyncClient):
    response = await client.get("/v1/run_code")
    assert response.status_code == 405
    assert response.headers["allow"] == "POST"
    assert response.json()["error"]["code"] == "METHOD_NOT_ALLOWED"


async def test_the_unexpected_is_logged_and_not_shown(
    client: httpx.AsyncClient, runs: ScriptedRuns, caplog: pytest.LogCaptureFixture
):
    runs.script = (RuntimeError("secret"),)
    with caplog.at_level(logging.ERROR):
        response = await client.post("/v1/run_code", json=CODE)
    assert response.status_code == 500
    assert response.json()["error"]["code"] == "INTERNAL_ERROR"
    assert "x-request-id" in response.headers
    assert "secret" not in response.text
    assert "secret" in caplog.text
    assert "Traceback" in caplog.text


@pytest.mark.parametrize("headers", [{}, {"Accept": "text/event-stream"}])
async def test_what_is_no_fault_of_the_caller_is_logged(
    client: httpx.AsyncClient, runs: ScriptedRuns, caplog: pytest.LogCaptureFixture, headers: dict[str, str]
):
    runs.script = (STARTED, errors.SandboxFailed("bwrap: no such thing"))
    await client.post("/v1/run_code", json=CODE, headers=headers)
    await client.post("/v1/run_code", json={}, headers=headers)
    warned = [record.getMessage() for record in caplog.records if record.name == "airlock.api.problems"]
    assert warned == ["SANDBOX_FAILED: bwrap: no such thing"]


async def test_the_frameworks_own_validation_has_our_shape(app: FastAPI, client: httpx.AsyncClient):
    @app.get("/later")
    async def later(offset: int) -> None: ...

    response = await client.get("/later", params={"offset": "x" * 9999})
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["code"] == "INVALID_ARGUMENTS"
    assert error["details"]["fields"][0]["field"] == "query.offset"
    assert len(response.content) < 1000


async def answer_to(error: BaseException) -> list[dict]:
    """What is sent when the application raises the error."""
    sent: list[dict] = []

    async def application(*_: object) -> None:
        raise error

    async def send(message: dict) -> None:
        sent.append(message)

    try:
        await Problems(application)({"type": "http"}, None, send)
    except asyncio.CancelledError:
        assert isinstance(error, asyncio.CancelledError)
    return sent


async def test_a_server_that_stops_says_so():
    head, body = await answer_to(asyncio.CancelledError())
    assert head["status"] == 503
    assert json.loads(body["body"])["error"]["retryable"]


async def test_a_caller_that_went_while_sending_is_no_fault(caplog: pytest.LogCaptureFixture):
    assert await answer_to(ClientDisconnect()) == []
    assert caplog.text == ""
