from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airlock.engines.docker.labels import (
    container_labels,
    filters,
    info_from_inspect,
    info_from_list,
)
from airlock.model import Limits, Owner, SandboxInfo, SandboxSpec, SandboxState, Workspace

LIMITS = Limits(1, 1, 1, 1, 1)
STAMPS = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-3))]))
OWNERS = st.builds(Owner, st.text(), st.none() | st.text())
WORKSPACES = st.builds(Workspace, OWNERS, st.text())


def inspected(labels, status="running", oom_killed=False):
    return {"Config": {"Labels": labels}, "State": {"Status": status, "OOMKilled": oom_killed}}


@given(OWNERS, st.none() | WORKSPACES, STAMPS, st.none() | STAMPS)
def test_what_is_written_is_read_back(owner, workspace, created, expires):
    spec = SandboxSpec("sb_1", owner, LIMITS, workspace, None, expires)
    labels = container_labels(spec, "blue", created)
    info = SandboxInfo("sb_1", SandboxState.RUNNING, owner, created, workspace, expires)
    assert info_from_inspect(inspected(labels)) == info
    assert info_from_list({"Labels": labels, "State": "running"}) == info


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("created", SandboxState.CREATED),
        ("running", SandboxState.RUNNING),
        ("paused", SandboxState.RUNNING),
        ("restarting", SandboxState.RUNNING),
        ("exited", SandboxState.EXITED),
        ("removing", SandboxState.EXITED),
        ("dead", SandboxState.EXITED),
    ],
)
def test_every_state_of_docker_has_one_here(status, state):
    labels = container_labels(SandboxSpec("sb_1", Owner("t"), LIMITS), "blue", datetime.now(UTC))
    assert info_from_inspect(inspected(labels, status)).state is state


def test_out_of_memory_is_told():
    labels = container_labels(SandboxSpec("sb_1", Owner("t"), LIMITS), "blue", datetime.now(UTC))
    assert info_from_inspect(inspected(labels, "exited", oom_killed=True)).oom_killed


def test_a_list_asks_for_one_instance_and_for_every_label_that_is_needed():
    labels = container_labels(SandboxSpec("sb_1", Owner("t"), LIMITS), "blue", datetime.now(UTC))
    wanted = filters("blue")["label"]
    assert "airlock.instance=blue" in wanted
    assert {label.partition("=")[0] for label in wanted} == labels.keys()
