import subprocess
import sys
from pathlib import Path

import pytest

from airlock.api.auth import Keyring
from airlock.api.keys import read_keys
from airlock.cli.main import main
from airlock.model import Principal, Role
from airlock.settings import Settings


def test_a_new_key_is_printed_once_and_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "keys"
    arguments = [
        "--tenant",
        "acme",
        "--user",
        "alice",
        "--role",
        "agent",
        "--role",
        "admin",
        "--file",
        str(file),
    ]
    assert main(["keys", "create", *arguments]) == 0
    key = capsys.readouterr().out.strip()
    assert key not in file.read_text()
    principal = Keyring.of(Settings(api_keys_file=file)).principal({"x-api-key": key})
    assert principal == Principal("acme", "alice", frozenset({Role.AGENT, Role.ADMIN}))


def test_the_file_of_the_settings_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("AIRLOCK_API_KEYS_FILE", str(tmp_path / "keys"))
    assert main(["keys", "create", "--tenant", "acme"]) == 0
    assert main(["keys", "list"]) == 0
    (key,) = read_keys(tmp_path / "keys")
    listing = capsys.readouterr().out.splitlines()
    assert listing[-2].split() == ["ID", "TENANT", "USER", "ROLES", "CREATED"]
    assert listing[-1].split() == [key.id, "acme", "-", "agent", key.created_at.isoformat()]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["create", "--tenant", "acme"], "--file FILE"),
        (["list"], "--file FILE"),
        (["create", "--tenant", "a b", "--file", "keys"], "a tenant or user has"),
        (["create", "--tenant", "a", "--file", "missing/keys"], "can't be written"),
        (["list", "--file", "missing"], "can't be read"),
    ],
)
def test_failures_are_sentences(
    arguments: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.delenv("AIRLOCK_API_KEYS_FILE", raising=False)
    monkeypatch.chdir(tmp_path)
    assert main(["keys", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("airlock: ")
    assert says in printed.err


def test_a_first_key_can_be_made_for_a_service_that_refuses_to_start_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("AIRLOCK_HOST", "0.0.0.0")
    assert main(["keys", "create", "--tenant", "acme", "--file", str(tmp_path / "keys")]) == 0


def test_commands_at_the_same_time_lose_no_key(tmp_path: Path):
    airlock = Path(sys.executable).with_name("airlock")
    command = [airlock, "keys", "create", "--tenant", "acme", "--file", tmp_path / "keys"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(4)]
    printed = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0] * 4
    assert len({*printed}) == 4
    assert len(read_keys(tmp_path / "keys")) == 4
