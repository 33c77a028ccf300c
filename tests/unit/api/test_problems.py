import logging

import httpx
import pytest
from fastapi import FastAPI

from airlock import errors
from airlock.api.problems import response_to, status_of
from airlock.errors import AirlockError
from unit.api.serving import CODE, ScriptedRuns

pytestmark = pytest.mark.anyio

EVERY_ERROR = [
    kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, AirlockError)
]


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
        (errors.ProcessNotFound, 404),
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


@pytest.mark.parametrize("kind", EVERY_ERROR)
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


async def test_the_frameworks_own_validation_has_our_shape(app: FastAPI, client: httpx.AsyncClient):
    @app.get("/later")
    async def later(offset: int) -> None: ...

    response = await client.get("/later", params={"offset": "x" * 9999})
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["code"] == "INVALID_ARGUMENTS"
    assert error["details"]["fields"][0]["field"] == "query.offset"
    assert len(response.content) < 1000
