"""What the routes work with, put together by `app`."""

from dataclasses import dataclass
from typing import cast

from starlette.requests import Request

from airlock.api.auth import Keyring
from airlock.api.idempotency import Idempotency
from airlock.api.metrics import Metrics
from airlock.api.readiness import EngineCheck
from airlock.engine import Engine
from airlock.model import Principal
from airlock.sandbox.pool import Pool
from airlock.sandbox.runs import Runs
from airlock.settings import Settings


@dataclass(frozen=True, slots=True)
class Services:
    settings: Settings
    keyring: Keyring
    metrics: Metrics
    engine: Engine
    engine_check: EngineCheck
    pool: Pool
    runs: Runs
    idempotency: Idempotency


def services_of(request: Request) -> Services:
    return cast(Services, request.app.state.services)


def principal_of(request: Request) -> Principal:
    """Who makes the request. Unauthorized if that can't be told."""
    principal = services_of(request).keyring.principal(request.headers)
    request.state.tenant = principal.tenant  # for the log
    return principal
