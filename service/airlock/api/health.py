"""Whether it is alive, whether it can run programs, and how it has been doing. None of these needs a key."""

from typing import Any, Literal

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from airlock.api.problems import ErrorAnswer, error_answer
from airlock.api.services import services_of
from airlock.errors import AirlockError
from airlock.model import Measure
from airlock.sandbox.pool import PoolReport

NO_KEY: dict[str, Any] = {"security": []}


class Alive(BaseModel):
    status: Literal["ok"] = "ok"


class EngineAnswer(BaseModel):
    name: str
    version: str | None


class Readiness(BaseModel):
    status: Literal["ready", "unavailable"]
    engine: EngineAnswer
    isolation: dict[str, Measure]
    pool: PoolReport
    error: ErrorAnswer | None


def health_routes() -> APIRouter:
    router = APIRouter(tags=["health"])

    @router.get(
        "/healthz", response_model=Alive, summary="Alive?", operation_id="healthz", openapi_extra=NO_KEY
    )
    async def healthz() -> Response:
        return JSONResponse(Alive().model_dump())

    @router.get(
        "/readyz",
        response_model=Readiness,
        operation_id="readyz",
        summary="Able to run programs? What isolation is enforced?",
        responses={503: {"model": Readiness, "description": "The engine can't be used; `error` says why."}},
        openapi_extra=NO_KEY,
    )
    async def readyz(request: Request) -> Response:
        readiness = await _readiness(request)
        return JSONResponse(readiness.model_dump(), 200 if readiness.error is None else 503)

    @router.get(
        "/metrics",
        response_class=Response,
        operation_id="metrics",
        summary="Metrics for Prometheus",
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
        openapi_extra=NO_KEY,
    )
    async def metrics(request: Request) -> Response:
        services = services_of(request)
        text = services.metrics.render(services.pool.report())
        return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    return router


async def _readiness(request: Request) -> Readiness:
    services = services_of(request)
    found = await services.engine_check.outcome()
    name = services.engine.name
    pool = services.pool.report()
    if isinstance(found, AirlockError):
        return Readiness(
            status="unavailable",
            engine=EngineAnswer(name=name, version=None),
            isolation={},
            pool=pool,
            error=error_answer(found),
        )
    return Readiness(
        status="ready",
        engine=EngineAnswer(name=name, version=found.version),
        isolation=dict(found.isolation),
        pool=pool,
        error=None,
    )
