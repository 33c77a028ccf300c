import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

AIRLOCK = Path(sys.executable).with_name("airlock")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A service that can touch nothing: its daemon is not there, and it serves all the same."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("AIRLOCK_")}
    return {
        **ours,
        "AIRLOCK_PORT": "0",
        "AIRLOCK_DATA_DIR": str(tmp_path / "data"),
        "AIRLOCK_INSTANCE": "test-serve",
        "AIRLOCK_ENGINE": "docker",
        "AIRLOCK_DOCKER_HOST": "unix:///nonexistent/docker.sock",
    }


@contextmanager
def serving(environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [AIRLOCK, "serve"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def complaint(environment: dict[str, str]) -> str:
    """What it says when it refuses to start."""
    ended = subprocess.run(
        [AIRLOCK, "serve"], env=environment, capture_output=True, text=True, timeout=30, check=False
    )
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr
    assert ended.stderr.startswith("airlock: ")
    return ended.stderr


def url_in(line: str) -> str:
    return next(word for word in line.split() if word.startswith("http://"))


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_serves_and_stops_when_told(environment: dict[str, str], by: signal.Signals):
    with serving(environment) as service:
        first, second = service.stdout.readline(), service.stdout.readline()
        assert "engine: docker" in first
        assert "no API key" in second
        assert httpx.get(f"{url_in(first)}/healthz").json() == {"status": "ok"}
        assert httpx.get(f"{url_in(first)}/readyz").status_code == 503
        service.send_signal(by)
        _, log = service.communicate(timeout=30)
        assert service.returncode == 0
        lines = [json.loads(line) for line in log.splitlines()]
        assert lines
        assert not any("exception" in line for line in lines)


def test_with_a_key_it_needs_it(environment: dict[str, str]):
    with serving(environment | {"AIRLOCK_API_KEYS": "secret-key:acme"}) as service:
        first = service.stdout.readline()
        response = httpx.post(f"{url_in(first)}/v1/run_code", json={"language": "python", "code": ""})
        assert response.status_code == 401
        service.terminate()
        printed, log = service.communicate(timeout=30)
        assert "no API key" not in printed
        assert "secret-key" not in log


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("AIRLOCK_PORT", "http", "AIRLOCK_PORT: "),
        ("AIRLOCK_ENGINE", "podman", "AIRLOCK_ENGINE: "),
        ("AIRLOCK_HOST", "0.0.0.0", "refusing to serve on 0.0.0.0 without an API key"),
        ("AIRLOCK_API_KEYS", "k:a:b:king", "entry 1 of AIRLOCK_API_KEYS"),
        ("AIRLOCK_API_KEYS_FILE", "/nonexistent/keys", "the key file can't be read"),
        ("AIRLOCK_DATA_DIR", "/dev/null/data", "AIRLOCK_DATA_DIR can't be made"),
        ("AIRLOCK_CONFIG", "/nonexistent/airlock.toml", "AIRLOCK_CONFIG names no file"),
    ],
)
def test_bad_settings_are_a_sentence(environment: dict[str, str], variable: str, value: str, says: str):
    assert says in complaint(environment | {variable: value})


def test_a_config_file_that_is_not_toml(environment: dict[str, str], tmp_path: Path):
    (tmp_path / "airlock.toml").write_text("port: 1")
    assert "can't be read" in complaint(environment | {"AIRLOCK_CONFIG": str(tmp_path / "airlock.toml")})


def test_a_port_that_is_taken(environment: dict[str, str]):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "can't serve on 127.0.0.1" in complaint(environment | {"AIRLOCK_PORT": port})
