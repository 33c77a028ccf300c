"""How errors look on the wire: the one table from errors to HTTP, and the one body."""

import asyncio
import logging
import math
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict
from pydantic.config import JsonDict
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from airlock import errors
from airlock.api.disconnect import CallerGone
from airlock.api.request_ids import request_id
from airlock.errors import AirlockError
from airlock.tools.arguments import explained

logger = logging.getLogger(__name__)

STATUS: dict[type[AirlockError], int] = {
    errors.InvalidArguments: 400,
    errors.Unauthorized: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.MethodNotAllowed: 405,
    errors.Conflict: 409,
    errors.BodyTooLarge: 413,
    errors.TooManyRuns: 429,
    errors.EngineUnavailable: 503,
    errors.EngineMisconfigured: 503,
    errors.SandboxFailed: 503,
    errors.AirlockError: 500,
}
"""An error that is not here has the status of the nearest class above it."""

KINDS = tuple(
    kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, AirlockError)
)
"""Every error there is."""

RETRY_AFTER_SECONDS = 1
"""For a retryable error that does not say itself."""


EXAMPLE: JsonDict = {
    "code": "INVALID_ARGUMENTS",
    "message": "timeout: Input should be greater than 0",
    "details": {},
    "retryable": False,
    "request_id": "req_0a1b2c3d4e5f60718293",
}


class ErrorAnswer(BaseModel):
    code: str
    message: str
    details: dict[str, Any]
    retryable: bool
    request_id: str | None


class Problem(BaseModel):
    """Every answer that is not 2xx."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"error": EXAMPLE}]})

    error: ErrorAnswer


def status_of(error: AirlockError) -> int:
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def error_answer(error: AirlockError) -> ErrorAnswer:
    return ErrorAnswer(
        code=error.code,
        message=error.message,
        details=error.details,
        retryable=error.retryable,
        request_id=request_id.get(),
    )


def body_of(error: AirlockError) -> dict[str, Any]:
    return Problem(error=error_answer(error)).model_dump()


def response_to(error: AirlockError) -> JSONResponse:
    headers = {}
    if error.retryable or error.retry_after is not None:
        headers["Retry-After"] = str(math.ceil(error.retry_after or RETRY_AFTER_SECONDS))
    if isinstance(error, errors.Unauthorized):
        headers["WWW-Authenticate"] = 'Bearer realm="airlock"'
    return JSONResponse(body_of(error), status_of(error), headers)


def told(error: Exception) -> AirlockError:
    """What callers may know of an error. What is no fault of theirs, the log gets, too."""
    if not isinstance(error, AirlockError):
        logger.error("unexpected %s", type(error).__name__, exc_info=error)
        return errors.InternalError("Airlock has failed. The log has more under this request id.")
    if status_of(error) >= 500:
        logger.warning("%s: %s", error.code, error.message)
    return error


def stopping() -> errors.EngineUnavailable:
    return errors.EngineUnavailable(
        "Airlock was stopped before this call was done, and its program was killed."
    )


class Problems:
    """Answers with the error that comes out of the application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def watched_send(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, watched_send)
        except (CallerGone, ClientDisconnect):
            return
        except asyncio.CancelledError:  # nobody cancels a request but a server that stops
            if started:
                raise
            await response_to(stopping())(scope, receive, send)
        except Exception as error:  # the last place where a caller can still get an answer
            problem = told(error)
            if started:
                raise
            await response_to(problem)(scope, receive, send)


def install_handlers(app: FastAPI) -> None:
    """Gives the framework's own errors our shape."""

    @app.exception_handler(HTTPException)
    async def http_error(_: Request, error: HTTPException) -> JSONResponse:
        match error.status_code:
            case 404:
                answer = response_to(errors.NotFound("There is nothing here; /docs shows what there is."))
            case 405:
                answer = response_to(errors.MethodNotAllowed("The Allow header has what is allowed here."))
            case _:
                answer = response_to(told(error))
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return response_to(explained(error.errors()))
