from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from airlock.api.keys import BadKeys, append_key, digest, new_key, parse_keys, read_keys, record
from airlock.model import Principal, Role

AGENT = frozenset({Role.AGENT})


@pytest.mark.parametrize(
    ("text", "principal"),
    [
        ("k", Principal("default")),
        ("k:acme", Principal("acme")),
        ("k:acme:alice", Principal("acme", "alice")),
        ("k:acme::admin", Principal("acme", None, frozenset({Role.ADMIN}))),
        ("k::alice", Principal("default", "alice")),
        (
            "k:acme:a@b.example:agent+approver",
            Principal("acme", "a@b.example", frozenset({Role.AGENT, Role.APPROVER})),
        ),
    ],
)
def test_a_key_names_a_principal(text: str, principal: Principal):
    (key,) = parse_keys(text)
    assert key.principal == principal
    assert key.sha256 == digest("k")


def test_keys_are_separated_by_commas():
    assert [key.tenant for key in parse_keys("a:one, b:two,,")] == ["one", "two"]


@pytest.mark.parametrize("text", [":acme", "secret:a b", "secret:acme:alice:king", "secret:a:b:agent:more"])
def test_a_bad_entry_is_told_without_the_key(text: str):
    with pytest.raises(BadKeys, match="entry 2 of AIRLOCK_API_KEYS") as caught:
        list(parse_keys(f"good,{text}"))
    assert "secret" not in str(caught.value)


def test_a_file_has_hashes_only_and_is_ours_alone(tmp_path: Path):
    file, key = tmp_path / "keys", new_key()
    append_key(file, record(key, "acme", "alice", AGENT))
    assert file.stat().st_mode & 0o777 == 0o600
    assert key not in file.read_text()
    (kept,) = read_keys(file)
    assert (kept.sha256, kept.tenant, kept.user, kept.roles) == (digest(key), "acme", "alice", AGENT)


def test_a_last_line_without_an_end_is_ended(tmp_path: Path):
    file = tmp_path / "keys"
    append_key(file, record("one", "acme", None, AGENT))
    file.write_text(file.read_text().rstrip())
    append_key(file, record("two", "acme", None, AGENT))
    assert len(read_keys(file)) == 2


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path):
    file = tmp_path / "keys"

    def write_many(tenant: str) -> None:
        for _ in range(50):
            append_key(file, record("k", tenant, None, AGENT))

    with ThreadPoolExecutor(3) as writers:
        list(writers.map(write_many, "abc"))
    assert sorted(key.tenant for key in read_keys(file)) == ["a"] * 50 + ["b"] * 50 + ["c"] * 50


def test_a_bad_line_is_named(tmp_path: Path):
    file = tmp_path / "keys"
    append_key(file, record("one", "acme", None, AGENT))
    with file.open("a") as lines:
        lines.write("not json\n")
    with pytest.raises(BadKeys, match="line 2"):
        read_keys(file)


def test_a_file_that_is_not_there(tmp_path: Path):
    with pytest.raises(BadKeys, match="can't be read"):
        read_keys(tmp_path / "none")
