import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from airlock.settings import Settings


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("AIRLOCK_"):
            monkeypatch.delenv(name)


def test_defaults_are_those_of_the_contract():
    settings = Settings()
    assert (settings.host, settings.port, settings.max_timeout) == ("127.0.0.1", 8080, 300)
    assert settings.engine == "auto"
    assert (settings.default_cpus, settings.default_memory_mb, settings.default_pids) == (1.0, 512, 256)
    assert (settings.default_tmp_mb, settings.default_output_bytes) == (256, 1048576)


def test_the_environment_sets(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AIRLOCK_PORT", "9000")
    monkeypatch.setenv("AIRLOCK_ENGINE", "bubblewrap")
    assert (Settings().port, Settings().engine) == (9000, "bubblewrap")


def test_a_file_sets_and_the_environment_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "airlock.toml").write_text('port = 9001\nmax_timeout = 20\ndata_dir = "/somewhere"\n')
    monkeypatch.setenv("AIRLOCK_CONFIG", str(tmp_path / "airlock.toml"))
    monkeypatch.setenv("AIRLOCK_PORT", "9002")
    settings = Settings()
    assert (settings.port, settings.max_timeout, settings.data_dir) == (9002, 20, Path("/somewhere"))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org"])
def test_beyond_loopback_a_key_is_needed(host: str, tmp_path: Path):
    with pytest.raises(ValidationError, match="without an API key"):
        Settings(host=host)
    assert Settings(host=host, api_keys="k").host == host
    assert Settings(host=host, api_keys_file=tmp_path / "keys").host == host


@pytest.mark.parametrize(
    "nonsense",
    [
        {"port": -1},
        {"port": 65536},
        {"engine": "podman"},
        {"max_timeout": 0},
        {"max_timeout": float("inf")},
        {"max_runs": 0},
        {"instance": "Not A Name"},
        {"kill_grace": 2},
    ],
)
def test_nonsense_is_refused(nonsense: dict):
    with pytest.raises(ValidationError):
        Settings(**nonsense)


def test_settings_are_frozen():
    with pytest.raises(ValidationError):
        Settings().port = 1


def test_keys_are_not_shown():
    assert "hunter2" not in repr(Settings(api_keys="hunter2"))
