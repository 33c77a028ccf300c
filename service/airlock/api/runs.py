"""The two routes that run a program while the caller waits, at once or event by event."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any, TypeVar

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from airlock.api import openapi, sse
from airlock.api.disconnect import unless_gone
from airlock.api.idempotency import Idempotency, scoped_key
from airlock.api.problems import body_of, told
from airlock.api.services import principal_of, services_of
from airlock.errors import Forbidden
from airlock.model import Role, RunRequest, RunStarted
from airlock.settings import Settings
from airlock.tools import run_code, run_command
from airlock.tools.arguments import parse
from airlock.tools.run_answer import RunAnswer, RunText, TextEvent, Transcript, replay
from airlock.tools.run_arguments import RunArguments
from airlock.tools.run_text import text_events, whole

A = TypeVar("A", bound=RunArguments)

STREAM_EXAMPLE = """\
event: started
data: {"run_id": "run_5f0c1d9a7be2468acf13", "sandbox": "sb_90d2b7c4e5f60718293a"}

event: stdout
id: 1
data: {"text": "1\\n", "offset": 0}

event: exited
id: 2
data: {"status": "exited", "exit_code": 0, …}
"""
DOCUMENTED: dict[str, Any] = {
    "response_model": RunAnswer,
    "responses": {
        200: {
            "description": "How the program ended, whatever it did. A stream if `Accept` names one.",
            "content": {sse.MEDIA_TYPE: {"schema": {"type": "string"}, "example": STREAM_EXAMPLE}},
        },
        **openapi.problems(400, 401, 403, 404, 409, 413, 429, 500, 503),
    },
}


def run_routes() -> APIRouter:
    router = APIRouter(tags=["runs"])

    @router.post(
        "/v1/run_code",
        summary="Run a program",
        operation_id="run_code",
        openapi_extra=openapi.call_of(run_code.RunCode),
        **DOCUMENTED,
    )
    async def _run_code(request: Request) -> Response:
        return await _run(request, "run_code", run_code.RunCode, run_code.request)

    @router.post(
        "/v1/run_command",
        summary="Run a command",
        operation_id="run_command",
        openapi_extra=openapi.call_of(run_command.RunCommand),
        **DOCUMENTED,
    )
    async def _run_command(request: Request) -> Response:
        return await _run(request, "run_command", run_command.RunCommand, run_command.request)

    return router


async def _run(
    request: Request, tool: str, model: type[A], to_run_request: Callable[[A, Settings], RunRequest]
) -> Response:
    services = services_of(request)
    principal = principal_of(request)
    if not principal.roles & {Role.AGENT, Role.ADMIN}:
        raise Forbidden("This API key may not run programs; use one with the role agent.")
    arguments = parse(model, await request.body())
    live = sse.is_wanted(request)
    run_request = replace(to_run_request(arguments, services.settings), live=live)

    events = text_events(services.runs.events(principal.owner, run_request))
    events = services.metrics.watched(tool, run_request, events)
    if (key := request.headers.get("idempotency-key")) is not None:
        key = scoped_key(principal, tool, key)
        events = _once(services.idempotency, key, arguments.model_dump_json().encode(), events)
    if live:
        return sse.EventStream(_pieces(events))
    answer = await unless_gone(request.receive, whole(events))
    return Response(answer.model_dump_json(), media_type="application/json")


async def _once(
    idempotency: Idempotency, key: str, body: bytes, events: AsyncGenerator[TextEvent, None]
) -> AsyncGenerator[TextEvent, None]:
    """The events of a run; or, if there was one under this key, of that one."""
    async with idempotency.call(key, body) as call:
        if call.answer is None:
            transcript = Transcript()
            async with aclosing(events):
                async for event in events:
                    if isinstance(event, RunStarted):
                        call.has_begun()
                    elif isinstance(event, RunText):
                        transcript.add(event)
                    elif isinstance(event, RunAnswer):
                        await call.keep(transcript.complete(event).model_dump_json())
                    yield event
    if call.answer is not None:
        for event in replay(RunAnswer.model_validate_json(call.answer)):
            yield event


async def _pieces(events: AsyncGenerator[TextEvent, None]) -> AsyncGenerator[bytes, None]:
    """The events as they go over the wire. An error after the start is an event, too."""
    started = False
    number = 0
    try:
        async with aclosing(events):
            async for event in events:
                match event:
                    case RunStarted(run_id, sandbox):
                        started = True
                        yield sse.encode("started", {"run_id": run_id, "sandbox": sandbox})
                    case RunText(stream, offset, text):
                        number += 1
                        yield sse.encode(stream, {"text": text, "offset": offset}, number)
                    case RunAnswer():
                        number += 1
                        yield sse.encode("exited", event.model_dump(exclude={"stdout", "stderr"}), number)
    except Exception as error:  # the stream has begun, so an error can only be an event of it
        if not started:
            raise
        yield sse.encode("error", body_of(told(error)))
