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

from airlock.cli.main import main

AIRLOCK = Path(sys.executable).with_name("airlock")


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in os.environ:
        if name.startswith("AIRLOCK_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AIRLOCK_DATA_DIR", str(tmp_path / "data"))


@contextmanager
def serving(**settings: str) -> Iterator[subprocess.Popen[str]]:
    environment = {
        **os.environ,
        "AIRLOCK_PORT": "0",
        # A daemon that is not there: it serves all the same, and no engine is needed for these tests.
        "AIRLOCK_ENGINE": "docker",
        "AIRLOCK_DOCKER_HOST": "unix:///nonexistent/docker.sock",
        **{f"AIRLOCK_{name.upper()}": value for name, value in settings.items()},
    }
    process = subprocess.Popen(
        [AIRLOCK, "serve"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def url_in(line: str) -> str:
    return next(word for word in line.split() if word.startswith("http://"))


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_serves_and_stops_when_told(by: signal.Signals):
    with serving() as service:
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


def test_with_a_key_it_needs_it():
    with serving(api_keys="secret-key:acme") as service:
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
        ("AIRLOCK_HOST", "no.such.host.invalid", "refusing to serve"),
        ("AIRLOCK_API_KEYS", "k:a:b:king", "entry 1 of AIRLOCK_API_KEYS"),
        ("AIRLOCK_API_KEYS_FILE", "/nonexistent/keys", "the key file can't be read"),
        ("AIRLOCK_DATA_DIR", "/dev/null/data", "AIRLOCK_DATA_DIR can't be made"),
        ("AIRLOCK_CONFIG", "/dev/null/airlock.toml", "airlock.toml"),
    ],
)
def test_bad_settings_are_a_sentence(
    variable: str,
    value: str,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setenv(variable, value)
    assert main(["serve"]) == 2
    printed = capsys.readouterr().err
    assert says in printed
    assert "Traceback" not in printed


def test_a_config_file_that_is_not_toml(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "airlock.toml").write_text("port: 1")
    monkeypatch.setenv("AIRLOCK_CONFIG", str(tmp_path / "airlock.toml"))
    assert main(["serve"]) == 2
    assert "can't be read" in capsys.readouterr().err


def test_a_port_that_is_taken(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setenv("AIRLOCK_PORT", str(taken.getsockname()[1]))
        assert main(["serve"]) == 2
    assert "can't serve on 127.0.0.1" in capsys.readouterr().err
