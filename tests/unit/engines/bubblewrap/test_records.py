from dataclasses import replace
from datetime import UTC, datetime

import pytest

from airlock.engines.bubblewrap.processes import ProcessKey
from airlock.engines.bubblewrap.records import FILE, Record, Records
from airlock.errors import Conflict, SandboxNotFound
from airlock.model import Owner, Workspace

RECORD = Record(
    id="sb_1",
    instance="blue",
    owner=Owner("acme", "ann"),
    created_at=datetime(2030, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    workspace=None,
    expires_at=None,
    cgroups=("/sys/fs/cgroup/memory/airlock/blue/sb_1",),
)


@pytest.fixture
def records(tmp_path):
    return Records(tmp_path, "blue")


def test_what_is_written_is_read(records):
    whole = replace(
        RECORD,
        id="sb_2",
        workspace=Workspace(Owner("acme"), "Proj é/1"),
        expires_at=datetime(2031, 1, 1, tzinfo=UTC),
    ).started(ProcessKey(12, 34), ProcessKey(11, 33))
    records.add(RECORD)
    records.add(whole)
    assert records.read("sb_1") == RECORD
    assert records.read("sb_2") == whole
    assert list(records.all()) == [RECORD, whole]


def test_one_is_completed_in_place(records):
    records.add(RECORD)
    started = RECORD.started(ProcessKey(12, 34), ProcessKey(11, 33))
    records.update(started)
    assert list(records.all()) == [started]


def test_an_id_that_is_taken_is_left_alone(records):
    records.add(RECORD)
    with pytest.raises(Conflict):
        records.add(replace(RECORD, owner=Owner("other")))
    assert list(records.all()) == [RECORD]


def test_other_instances_are_none_of_its_business(records, tmp_path):
    records.add(RECORD)
    other = Records(tmp_path, "green")
    assert list(other.all()) == []
    with pytest.raises(SandboxNotFound):
        other.read("sb_1")
    with pytest.raises(Conflict):
        other.add(replace(RECORD, instance="green"))


def test_removed_is_removed_altogether(records, tmp_path):
    records.add(RECORD)
    (records.directory("sb_1") / "agent.sock").touch()
    records.remove("sb_1")
    records.remove("sb_1")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("sandbox_id", ["", ".", "..", "a/b", "../sb_1", "sb_\0", "SB", "x" * 65])
def test_what_can_not_be_an_id_is_not_found(records, sandbox_id):
    with pytest.raises(SandboxNotFound):
        records.read(sandbox_id)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"id": "sb_1"}'])
def test_a_broken_record_is_none(records, text):
    records.add(RECORD)
    (records.directory("sb_1") / FILE).write_text(text)
    with pytest.raises(SandboxNotFound):
        records.read("sb_1")
    assert list(records.all()) == []


def test_where_nothing_was_ever_made_there_is_nothing(tmp_path):
    assert list(Records(tmp_path / "none", "blue").all()) == []


def test_a_record_that_can_not_be_written_leaves_nothing(records, tmp_path, monkeypatch):
    def full(*_arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_text", full)
    with pytest.raises(OSError, match="No space"):
        records.add(RECORD)
    assert list(tmp_path.iterdir()) == []
