import asyncio
import logging
from pathlib import Path
from typing import ClassVar

import httpx
import pytest

from airlock import __version__, app
from airlock.app import choose_engine, create_app
from airlock.engines.docker import engine as docker_engine
from airlock.errors import AirlockError, EngineMisconfigured, EngineUnavailable
from airlock.settings import Settings
from unit.scripted import ScriptedAgent, ScriptedEngine

pytestmark = pytest.mark.anyio


async def prints_one(agent: ScriptedAgent) -> None:
    start = await agent.begin()
    agent.output(start, "stdout", 0, b"1\n")
    agent.exit(start, stdout=2)


async def test_a_call_goes_all_the_way(tmp_path: Path):
    """From HTTP to the agent's frames and back, with the real parts between."""
    service = create_app(Settings(data_dir=tmp_path), ScriptedEngine(prints_one))
    async with service.router.lifespan_context(service):
        transport = httpx.ASGITransport(app=service)
        async with httpx.AsyncClient(transport=transport, base_url="http://airlock") as client:
            answer = (
                await client.post("/v1/run_code", json={"language": "python", "code": "print(1)"})
            ).json()
    assert (answer["status"], answer["stdout"], answer["engine"]) == ("exited", "1\n", "scripted")


async def test_what_a_stopped_service_was_running_is_destroyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Servers cancel their requests and end the lifespan in the same breath."""
    begun = asyncio.Event()

    async def never_ends(agent: ScriptedAgent) -> None:
        await agent.begin()
        begun.set()
        await asyncio.Event().wait()

    class ClosingEngine(ScriptedEngine):
        async def aclose(self) -> None:
            self.failure = EngineUnavailable("closed")

    async def choose(_: Settings) -> ClosingEngine:
        return engine

    engine = ClosingEngine(never_ends)
    monkeypatch.setattr(app, "choose_engine", choose)
    service = create_app(Settings(data_dir=tmp_path))
    transport = httpx.ASGITransport(app=service)
    async with (
        httpx.AsyncClient(transport=transport, base_url="http://airlock") as client,
        service.router.lifespan_context(service),
    ):
        call = asyncio.create_task(client.post("/v1/run_code", json={"language": "python", "code": ""}))
        await begun.wait()
        call.cancel()
    assert set(engine.destroyed) == {spec.id for spec in engine.specs}


async def test_it_says_what_is_not_enforced(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    service = create_app(Settings(data_dir=tmp_path), ScriptedEngine(prints_one))
    with caplog.at_level(logging.INFO):
        async with service.router.lifespan_context(service):
            pass
    assert "not enforced: memory (scripted)" in caplog.text


async def test_an_engine_that_is_passed_in_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    engine = ScriptedEngine(prints_one)
    closed: list[bool] = []

    async def note() -> None:
        closed.append(True)

    monkeypatch.setattr(engine, "aclose", note)
    service = create_app(Settings(data_dir=tmp_path), engine)
    async with service.router.lifespan_context(service):
        pass
    assert closed == []


async def test_the_document_has_a_version(tmp_path: Path):
    document = create_app(Settings(data_dir=tmp_path)).openapi()
    assert document["info"]["title"] == "Airlock"
    assert document["info"]["version"] == __version__
    assert "locked containers" in document["info"]["description"]


class FakeDocker(ScriptedEngine):
    name = "docker"
    found: ClassVar[AirlockError | None] = None
    closed: ClassVar[int] = 0

    def __init__(self, _: Settings) -> None:
        super().__init__(prints_one)
        self.failure = type(self).found

    async def aclose(self) -> None:
        type(self).closed += 1


@pytest.fixture
def docker(monkeypatch: pytest.MonkeyPatch) -> type[FakeDocker]:
    kind = type("FakeDocker", (FakeDocker,), {})
    monkeypatch.setattr(docker_engine, "DockerEngine", kind)
    return kind


async def test_auto_takes_docker_where_a_daemon_answers(docker: type[FakeDocker]):
    assert isinstance(await choose_engine(Settings(engine="auto")), docker)


async def test_auto_stays_with_a_daemon_that_lacks_the_image(docker: type[FakeDocker]):
    docker.found = EngineMisconfigured("no image")
    assert isinstance(await choose_engine(Settings(engine="auto")), docker)


async def test_auto_takes_bubblewrap_where_none_answers(docker: type[FakeDocker]):
    docker.found = EngineUnavailable("no daemon")
    engine = await choose_engine(Settings(engine="auto"))
    try:
        assert engine.name == "bubblewrap"
        assert docker.closed == 1
    finally:
        await engine.aclose()


async def test_auto_does_not_wait_for_a_daemon_that_hangs(
    docker: type[FakeDocker], monkeypatch: pytest.MonkeyPatch
):
    async def hangs(_: FakeDocker) -> None:
        raise TimeoutError

    monkeypatch.setattr(docker, "check", hangs)
    engine = await choose_engine(Settings(engine="auto"))
    await engine.aclose()
    assert engine.name == "bubblewrap"


async def test_docker_that_was_asked_for_is_taken_even_while_it_is_away(docker: type[FakeDocker]):
    docker.found = EngineUnavailable("no daemon")
    assert isinstance(await choose_engine(Settings(engine="docker")), docker)
    assert app.DAEMON_SECONDS <= 5
