"""A real service in a process of its own, for each engine."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

KEYS = "key-acme:acme,key-alice:acme:alice,key-bob:acme:bob,key-other:other"
ENGINES = ("bubblewrap", "docker")


@dataclass
class Service:
    url: str
    engine: str
    environment: dict[str, str]
    process: subprocess.Popen[bytes]

    def client(self, key: str = "key-acme", **options: Any) -> httpx.Client:
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60, **options)


def eventually(condition: Callable[[], Any], seconds: float = 20) -> Any:
    """What `condition` gives as soon as it is true; polls, because the other side is another process."""
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return result


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(engine: str, data_dir: Path, **settings: str) -> Iterator[Service]:
    port = free_port()
    environment = {
        **os.environ,
        "AIRLOCK_ENGINE": engine,
        "AIRLOCK_PORT": str(port),
        "AIRLOCK_DATA_DIR": str(data_dir),
        "AIRLOCK_INSTANCE": f"e2e-{port}",
        "AIRLOCK_API_KEYS": KEYS,
        **{f"AIRLOCK_{name.upper()}": value for name, value in settings.items()},
    }
    command = [str(Path(sys.executable).with_name("airlock")), "serve"]
    process = subprocess.Popen(command, env=environment)
    service = Service(f"http://127.0.0.1:{port}", engine, environment, process)
    try:
        eventually(lambda: _answers(service))
        yield service
    finally:
        process.terminate()
        assert process.wait(timeout=30) == 0


def _answers(service: Service) -> bool:
    assert service.process.poll() is None, "the service has ended"
    try:
        return httpx.get(f"{service.url}/healthz").status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture(scope="module", params=ENGINES)
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(request.param, tmp_path_factory.mktemp("data")) as service:
        ready = httpx.get(f"{service.url}/readyz", timeout=60)
        if ready.status_code != 200:
            reason = f"LEFT OUT: {request.param} can't be used here: {ready.text}"
            if os.environ.get("AIRLOCK_TEST_REQUIRE_ENGINES") == "1":
                pytest.fail(reason)
            pytest.skip(reason)
        yield service


@pytest.fixture
def client(service: Service) -> Iterator[httpx.Client]:
    with service.client() as client:
        yield client
