from pathlib import Path

import httpx
import pytest

from airlock.api.auth import Keyring
from airlock.api.keys import BadKeys, append_key, record
from airlock.errors import Forbidden, Unauthorized
from airlock.model import Owner, Principal, Role
from airlock.settings import Settings
from unit.api.serving import CODE, ScriptedRuns, calling, new_app

KEYS = "key-a:acme,key-b:acme:bob:admin"


@pytest.fixture
def keyring(settings: Settings) -> Keyring:
    return Keyring.of(settings.model_copy(update={"api_keys": Settings(api_keys=KEYS).api_keys}))


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer key-b"},
        {"authorization": "bearer  key-b"},
        {"x-api-key": "key-b"},
        {"authorization": "Basic abc", "x-api-key": "key-b"},
    ],
)
def test_a_key_can_be_presented_in_two_ways(keyring: Keyring, headers: dict[str, str]):
    assert keyring.principal(headers) == Principal("acme", "bob", frozenset({Role.ADMIN}))


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer"},
        {"authorization": "Bearer key-c"},
        {"authorization": "key-a"},
        {"x-api-key": ""},
        {"x-api-key": "key-a:acme"},
        {"x-api-key": "\xff\udcff"},
    ],
)
def test_no_key_or_a_wrong_one_is_refused(keyring: Keyring, headers: dict[str, str]):
    with pytest.raises(Unauthorized):
        keyring.principal(headers)


def test_only_hashes_are_kept(keyring: Keyring):
    assert "key-a" not in repr(vars(keyring))


def test_without_keys_everybody_is_the_default_tenant(settings: Settings):
    keyring = Keyring.of(settings)
    assert keyring.is_open
    assert keyring.principal({}) == Principal("default")


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://[", "http://127.0.0.1.evil.example"]
)
def test_without_keys_web_pages_are_refused(settings: Settings, origin: str):
    with pytest.raises(Forbidden):
        Keyring.of(settings).principal({"origin": origin})


def test_without_keys_a_page_of_this_machine_may_call(settings: Settings):
    keyring = Keyring.of(settings)
    assert keyring.principal({"origin": "http://localhost:3000"}) == Principal("default")
    assert keyring.principal({"origin": "http://[::1]:3000"}) == Principal("default")


@pytest.mark.parametrize("empty", ["", "  ,"])
def test_keys_that_are_configured_but_empty_are_refused(tmp_path: Path, empty: str):
    file = tmp_path / "keys"
    file.touch()
    with pytest.raises(BadKeys, match="no key"):
        Keyring.of(Settings(api_keys=empty, api_keys_file=file))


def test_keys_of_the_file_count_too(tmp_path: Path):
    append_key(tmp_path / "keys", record("filed", "acme", None, frozenset({Role.AGENT})))
    keyring = Keyring.of(Settings(api_keys="typed:other", api_keys_file=tmp_path / "keys"))
    assert keyring.principal({"x-api-key": "filed"}).tenant == "acme"
    assert keyring.principal({"x-api-key": "typed"}).tenant == "other"


@pytest.mark.anyio
async def test_over_http(tmp_path: Path, runs: ScriptedRuns):
    app = new_app(Settings(data_dir=tmp_path, api_keys=KEYS))
    async with calling(app, runs) as client:
        refused: httpx.Response = await client.post("/v1/run_code", json=CODE)
        assert refused.status_code == 401
        assert refused.json()["error"]["code"] == "UNAUTHORIZED"
        assert refused.headers["www-authenticate"].startswith("Bearer")
        assert not runs.asked
        taken = await client.post("/v1/run_code", json=CODE, headers={"Authorization": "Bearer key-b"})
        assert taken.status_code == 200
        assert runs.asked[0][0] == Owner("acme", "bob")
        for open_to_all in ("/healthz", "/readyz", "/metrics", "/docs", "/openapi.json"):
            assert (await client.get(open_to_all)).status_code == 200
