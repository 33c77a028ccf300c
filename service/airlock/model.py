"""The nouns that every layer shares. Plain frozen values: no behaviour, no I/O, no text decoding."""

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal

StreamName = Literal["stdout", "stderr"]


class Role(StrEnum):
    AGENT = "agent"
    APPROVER = "approver"
    ADMIN = "admin"


class Status(StrEnum):
    """How a program ended."""

    EXITED = "exited"
    TIMED_OUT = "timed_out"
    OOM_KILLED = "oom_killed"
    SIGNALED = "signaled"
    KILLED = "killed"
    OUTPUT_LIMIT = "output_limit"
    DISK_FULL = "disk_full"
    LOST = "lost"


class SandboxState(StrEnum):
    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a sandbox is. A container never serves two owners."""

    tenant: str
    user: str | None = None


@dataclass(frozen=True, slots=True)
class Workspace:
    """A persistent directory of one owner."""

    owner: Owner
    name: str

    @property
    def key(self) -> str:
        """One word for it that is unique over all owners and safe as a file or volume name."""
        parts = (self.owner.tenant, self.owner.user or "", self.name)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Principal:
    """Who makes a request."""

    tenant: str
    user: str | None = None
    roles: frozenset[Role] = frozenset({Role.AGENT})

    @property
    def owner(self) -> Owner:
        return Owner(self.tenant, self.user)


@dataclass(frozen=True, slots=True)
class Limits:
    cpus: float
    memory_bytes: int
    pids: int
    tmp_bytes: int
    output_bytes: int


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """What an engine is asked to make. With no workspace it gets a private empty one, `tmp_bytes` large."""

    id: str
    owner: Owner
    limits: Limits
    workspace: Workspace | None = None
    image: str | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SandboxInfo:
    """What an engine knows of a sandbox, from its own records."""

    id: str
    state: SandboxState
    owner: Owner
    created_at: datetime
    workspace: Workspace | None = None
    expires_at: datetime | None = None
    oom_killed: bool = False


@dataclass(frozen=True, slots=True)
class Measure:
    """One promise of isolation: whether it is enforced here, and by what."""

    enforced: bool
    how: str


@dataclass(frozen=True, slots=True)
class EngineReport:
    """What `check` found. `isolation` has at least memory, cpu, pids, disk and network."""

    engine: str
    version: str
    isolation: Mapping[str, Measure]


@dataclass(frozen=True, slots=True)
class Code:
    language: str
    source: bytes


@dataclass(frozen=True, slots=True)
class Command:
    argv: Sequence[str]


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A program that a caller waits for."""

    program: Code | Command
    timeout: float
    limits: Limits
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes | None = None
    cwd: str = "."
    files: Mapping[str, bytes] = field(default_factory=dict)
    workspace: str | None = None
    sandbox: str | None = None
    fresh: bool = False
    live: bool = False
    """Whether somebody watches: then all of the output limit is sent as it comes, and the tail on top."""


@dataclass(frozen=True, slots=True)
class Usage:
    cpu_ms: float
    peak_memory_bytes: int


@dataclass(frozen=True, slots=True)
class RunStarted:
    run_id: str
    sandbox: str


@dataclass(frozen=True, slots=True)
class RunOutput:
    """Bytes of one stream at their absolute offset. A jump in the offset is output that was not kept."""

    stream: StreamName
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class RunFinished:
    run_id: str
    sandbox: str
    workspace: str | None
    engine: str
    status: Status
    exit_code: int | None
    signal: str | None
    stdout_bytes: int
    stderr_bytes: int
    truncated: bool
    duration_ms: float
    usage: Usage | None


RunEvent = RunStarted | RunOutput | RunFinished


def new_id(prefix: str) -> str:
    """An id that can't be guessed: `run_5f…`."""
    return f"{prefix}_{secrets.token_hex(10)}"
