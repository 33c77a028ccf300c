"""The labels on a container are the database of what runs: written once at its making, read back here."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from airlock.model import Owner, SandboxInfo, SandboxSpec, SandboxState, Workspace

INSTANCE = "airlock.instance"
SANDBOX = "airlock.sandbox"
OWNER = "airlock.owner"
WORKSPACE = "airlock.workspace"
CREATED = "airlock.created"
EXPIRES = "airlock.expires"

STATES = {
    "created": SandboxState.CREATED,
    "running": SandboxState.RUNNING,
    "paused": SandboxState.RUNNING,
    "restarting": SandboxState.RUNNING,
}
"""Every other state is an end: exited, removing, dead."""


def container_labels(spec: SandboxSpec, instance: str, created_at: datetime) -> dict[str, str]:
    labels = {
        INSTANCE: instance,
        SANDBOX: spec.id,
        CREATED: created_at.isoformat(),
        **_owner_labels(OWNER, spec.owner),
    }
    if spec.expires_at is not None:
        labels[EXPIRES] = spec.expires_at.isoformat()
    if spec.workspace is not None:
        labels |= _workspace_labels(spec.workspace)
    return labels


def volume_labels(workspace: Workspace, instance: str) -> dict[str, str]:
    return {INSTANCE: instance, **_workspace_labels(workspace)}


def filters(instance: str) -> dict[str, list[str]]:
    """What the daemon is asked for. A container without what `_info` needs is none of ours."""
    return {"label": [f"{INSTANCE}={instance}", SANDBOX, CREATED, f"{OWNER}.tenant"]}


def info_from_list(entry: Mapping[str, Any]) -> SandboxInfo:
    """From an entry of `GET /containers/json`, which does not tell of out-of-memory kills."""
    return _info(entry["Labels"], entry["State"], oom_killed=False)


def info_from_inspect(container: Mapping[str, Any]) -> SandboxInfo:
    state = container["State"]
    return _info(container["Config"]["Labels"], state["Status"], oom_killed=state["OOMKilled"])


def _info(labels: Mapping[str, str], state: str, *, oom_killed: bool) -> SandboxInfo:
    name = labels.get(WORKSPACE)
    expires = labels.get(EXPIRES)
    return SandboxInfo(
        id=labels[SANDBOX],
        state=STATES.get(state, SandboxState.EXITED),
        owner=_owner(OWNER, labels),
        created_at=datetime.fromisoformat(labels[CREATED]),
        workspace=None if name is None else Workspace(_owner(WORKSPACE, labels), name),
        expires_at=None if expires is None else datetime.fromisoformat(expires),
        oom_killed=oom_killed,
    )


def _workspace_labels(workspace: Workspace) -> dict[str, str]:
    return {WORKSPACE: workspace.name, **_owner_labels(WORKSPACE, workspace.owner)}


def _owner_labels(prefix: str, owner: Owner) -> dict[str, str]:
    labels = {f"{prefix}.tenant": owner.tenant}
    if owner.user is not None:
        labels[f"{prefix}.user"] = owner.user
    return labels


def _owner(prefix: str, labels: Mapping[str, str]) -> Owner:
    return Owner(labels[f"{prefix}.tenant"], labels.get(f"{prefix}.user"))
