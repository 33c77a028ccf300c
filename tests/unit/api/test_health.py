import asyncio

import httpx
import pytest
from fastapi import FastAPI

from airlock.api import readiness
from airlock.api.readiness import EngineCheck
from airlock.errors import EngineUnavailable
from airlock.model import EngineReport
from airlock.settings import Settings
from unit.api.serving import CODE, STARTED, ScriptedRuns, calling, new_app
from unit.scripted import ScriptedEngine

pytestmark = pytest.mark.anyio


async def idle(_: object) -> None: ...


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine(idle)


@pytest.fixture
def app(settings: Settings, engine: ScriptedEngine) -> FastAPI:
    return new_app(settings, engine)


async def test_alive_needs_no_engine(client: httpx.AsyncClient, engine: ScriptedEngine):
    engine.failure = EngineUnavailable("away")
    response = await client.get("/healthz")
    assert (response.status_code, response.json()) == (200, {"status": "ok"})


async def test_ready_says_what_is_enforced(client: httpx.AsyncClient):
    response = await client.get("/readyz")
    assert response.status_code == 200
    answer = response.json()
    assert answer["status"] == "ready"
    assert answer["engine"] == {"name": "scripted", "version": "1"}
    assert answer["isolation"].keys() == {"memory", "cpu", "pids", "disk", "network"}
    assert answer["isolation"]["memory"] == {"enforced": False, "how": "scripted"}
    assert answer["pool"]["running"] == 0
    assert answer["error"] is None


async def test_not_ready_says_why_and_recovers(
    client: httpx.AsyncClient, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(readiness, "FRESH_SECONDS", 0.0)
    engine.failure = EngineUnavailable("the daemon is away")
    response = await client.get("/readyz")
    assert response.status_code == 503
    assert response.json()["status"] == "unavailable"
    assert response.json()["error"]["code"] == "ENGINE_UNAVAILABLE"
    assert response.json()["error"]["message"] == "the daemon is away"
    engine.failure = None
    assert (await client.get("/readyz")).status_code == 200


async def test_a_service_whose_engine_is_away_starts_all_the_same(
    settings: Settings, engine: ScriptedEngine, runs: ScriptedRuns
):
    engine.failure = EngineUnavailable("away")
    async with calling(new_app(settings, engine), runs) as client:
        assert (await client.get("/readyz")).status_code == 503
        assert (await client.get("/healthz")).status_code == 200


class SlowEngine(ScriptedEngine):
    def __init__(self) -> None:
        super().__init__(idle)
        self.asked = 0
        self.answers = asyncio.Event()

    async def check(self) -> EngineReport:
        self.asked += 1
        await self.answers.wait()
        return await super().check()


async def test_an_engine_that_hangs_is_unavailable(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(readiness, "CHECK_SECONDS", 0.01)
    assert isinstance(await EngineCheck(SlowEngine()).outcome(), EngineUnavailable)


async def test_many_who_ask_at_once_cost_one_check():
    engine = SlowEngine()
    engine.answers.set()
    check = EngineCheck(engine)
    outcomes = await asyncio.gather(*(check.outcome() for _ in range(20)))
    assert engine.asked == 1
    assert all(isinstance(outcome, EngineReport) for outcome in outcomes)


async def test_metrics_count_runs_requests_and_engine_errors(client: httpx.AsyncClient, runs: ScriptedRuns):
    await client.post("/v1/run_code", json=CODE)
    runs.script = (EngineUnavailable("away"),)
    await client.post("/v1/run_command", json={"command": "ls"})
    runs.script = (STARTED, EngineUnavailable("away"))
    await client.post("/v1/run_command", json={"command": "ls"})
    await client.get("/made/up/1")
    response = await client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    lines = response.text.splitlines()
    assert 'airlock_runs_total{language="python",status="exited",tool="run_code"} 1.0' in lines
    assert 'airlock_runs_total{language="",status="error",tool="run_command"} 1.0' in lines
    assert 'airlock_run_duration_seconds_count{language="python",tool="run_code"} 1.0' in lines
    assert 'airlock_run_duration_seconds_bucket{language="python",le="0.005",tool="run_code"} 1.0' in lines
    assert 'airlock_engine_errors_total{code="ENGINE_UNAVAILABLE"} 2.0' in lines
    assert 'airlock_sandboxes{state="running"} 0.0' in lines
    assert 'airlock_http_requests_total{method="POST",route="/v1/run_code",status="200"} 1.0' in lines
    assert 'airlock_http_requests_total{method="GET",route="none",status="404"} 1.0' in lines


async def test_two_services_share_no_metrics(settings: Settings, runs: ScriptedRuns):
    async with calling(new_app(settings), runs) as client:
        await client.post("/v1/run_code", json=CODE)
    async with calling(new_app(settings), runs) as client:
        assert 'status="exited"' not in (await client.get("/metrics")).text
