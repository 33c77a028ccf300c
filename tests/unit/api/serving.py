"""A service whose runs follow a script, in this event loop: with no socket, or on a real one."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI

from airlock.app import create_app
from airlock.model import Owner, RunEvent, RunFinished, RunOutput, RunRequest, RunStarted, Status, Usage
from airlock.settings import Settings
from unit.scripted import ScriptedEngine

STARTED = RunStarted("run_1", "sb_1")
CODE = {"language": "python", "code": "print(1)"}


def finished(**changes: Any) -> RunFinished:
    values: dict[str, Any] = {
        "run_id": "run_1",
        "sandbox": "sb_1",
        "workspace": None,
        "engine": "scripted",
        "status": Status.EXITED,
        "exit_code": 0,
        "signal": None,
        "stdout_bytes": 2,
        "stderr_bytes": 0,
        "truncated": False,
        "duration_ms": 3.1,
        "usage": Usage(2.0, 9000000),
    }
    return RunFinished(**{**values, **changes})


PRINTS_ONE = (STARTED, RunOutput("stdout", 0, b"1\n"), finished())


class ScriptedRuns:
    """Each run goes through `script`: it yields events, raises exceptions and waits for asyncio.Events."""

    def __init__(self) -> None:
        self.script: tuple[RunEvent | Exception | asyncio.Event, ...] = PRINTS_ONE
        self.asked: list[tuple[Owner, RunRequest]] = []
        self.begun = asyncio.Event()
        self.cut_off = asyncio.Event()

    async def events(self, owner: Owner, request: RunRequest) -> AsyncGenerator[RunEvent, None]:
        self.asked.append((owner, request))
        self.begun.set()
        try:
            for step in self.script:
                if isinstance(step, Exception):
                    raise step
                if isinstance(step, asyncio.Event):
                    await step.wait()
                else:
                    yield step
        except (asyncio.CancelledError, GeneratorExit):
            self.cut_off.set()
            raise


def new_app(settings: Settings, engine: ScriptedEngine | None = None) -> FastAPI:
    async def no_agent(_: object) -> None:
        raise AssertionError("no sandbox is made in these tests")

    return create_app(settings, engine or ScriptedEngine(no_agent))


def follow(app: FastAPI, runs: ScriptedRuns) -> None:
    """In a service that is up, put scripted runs in the place of the real ones."""
    app.state.services = replace(app.state.services, runs=runs)


@asynccontextmanager
async def calling(app: FastAPI, runs: ScriptedRuns) -> AsyncIterator[httpx.AsyncClient]:
    async with app.router.lifespan_context(app):
        follow(app, runs)
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://airlock") as client:
            yield client


class Server(uvicorn.Server):
    def __init__(self, app: FastAPI) -> None:
        super().__init__(uvicorn.Config(app, http="httptools", log_config=None, access_log=False))
        self.is_up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_up.set()


@asynccontextmanager
async def calling_over_tcp(app: FastAPI, runs: ScriptedRuns) -> AsyncIterator[httpx.AsyncClient]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Server(app)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        await server.is_up.wait()
        follow(app, runs)
        try:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            async with httpx.AsyncClient(base_url=url, timeout=30) as client:
                yield client
        finally:
            server.should_exit = True
            await serving


async def events_of(response: httpx.Response) -> AsyncIterator[tuple[str, str | None, dict[str, Any]]]:
    """The name, id and data of each event as it arrives."""
    name, number = "", None
    async for line in response.aiter_lines():
        key, _, value = line.partition(": ")
        match key:
            case "event":
                name, number = value, None
            case "id":
                number = value
            case "data":
                yield name, number, json.loads(value)
