import os
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from airlock.settings import Settings
from unit.api.serving import ScriptedRuns, calling, calling_over_tcp, new_app


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in os.environ:
        if name.startswith("AIRLOCK_"):
            monkeypatch.delenv(name)
    return Settings(data_dir=tmp_path)


@pytest.fixture
def app(settings: Settings) -> FastAPI:
    return new_app(settings)


@pytest.fixture
def runs() -> ScriptedRuns:
    return ScriptedRuns()


@pytest.fixture
async def client(app: FastAPI, runs: ScriptedRuns, anyio_backend: str) -> AsyncIterator[httpx.AsyncClient]:
    async with calling(app, runs) as client:
        yield client


@pytest.fixture
async def tcp_client(
    app: FastAPI, runs: ScriptedRuns, anyio_backend: str
) -> AsyncIterator[httpx.AsyncClient]:
    async with calling_over_tcp(app, runs) as client:
        yield client
