"""The OpenAPI document against the service behind it: whatever schemathesis makes up, no answer may break it.

The programs are scripted, so that this needs no engine and is quick; the way from the socket to them is real.
"""

import asyncio
import socket
import threading
from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case

from airlock.settings import Settings
from unit.api.serving import ScriptedRuns, Server, follow, new_app

KEYS = "key-acme:acme"
AUTHORIZED = {"Authorization": "Bearer key-acme"}


schema = schemathesis.openapi.from_dict(new_app(Settings(api_keys=KEYS)).openapi())


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the service answers, from a thread of its own."""
    app = new_app(Settings(data_dir=tmp_path_factory.mktemp("data"), api_keys=KEYS))
    up = threading.Event()
    stopping: list[Server] = []

    async def serve(listener: socket.socket) -> None:
        server = Server(app)
        stopping.append(server)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        await server.is_up.wait()
        follow(app, ScriptedRuns())
        up.set()
        await serving

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=lambda: asyncio.run(serve(listener)))
        thread.start()
        assert up.wait(30)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            stopping[0].should_exit = True
            thread.join()


@schema.parametrize()
@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
def test_every_answer_is_as_described(case: Case, url: str):
    case.call_and_validate(url, headers=AUTHORIZED)
