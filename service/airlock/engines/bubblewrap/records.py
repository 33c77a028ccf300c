"""What the engine knows of its sandboxes: a directory for each, with a record and the agent's socket.

The record is written before anything else of the sandbox is made, so whatever a crash leaves is found by it.
"""

import errno
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from airlock.engines.bubblewrap.processes import ProcessKey
from airlock.errors import Conflict, SandboxNotFound
from airlock.model import Owner, Workspace

SANDBOX_ID = re.compile(r"[a-z0-9_]{1,64}")
FILE = "sandbox.json"
SOCKET = "agent.sock"


@dataclass(frozen=True, slots=True)
class Record:
    id: str
    instance: str
    owner: Owner
    created_at: datetime
    workspace: Workspace | None
    expires_at: datetime | None
    cgroups: tuple[str, ...]
    init: ProcessKey | None = None
    """PID 1 of the sandbox. Without one, the sandbox is half-made."""
    monitor: ProcessKey | None = None
    """The bwrap that waits for it."""

    def started(self, init: ProcessKey, monitor: ProcessKey) -> "Record":
        return replace(self, init=init, monitor=monitor)


class Records:
    """Those of one instance of the service. Others in the same directory are none of its business."""

    def __init__(self, directory: Path, instance: str) -> None:
        self.instance = instance
        self._directory = directory

    def directory(self, sandbox_id: str) -> Path:
        """Where the sandbox's own things are. Raises SandboxNotFound for what can't be an id."""
        if not SANDBOX_ID.fullmatch(sandbox_id):
            raise not_found(sandbox_id)
        return self._directory / sandbox_id

    def add(self, record: Record) -> None:
        """Raises Conflict if there is one of this id."""
        directory = self.directory(record.id)
        new = directory.with_name(f".new-{record.id}")
        try:
            new.mkdir(mode=0o700, exist_ok=True)
            (new / FILE).write_text(encode(record))
            new.rename(directory)
        except OSError as error:
            shutil.rmtree(new, ignore_errors=True)
            if error.errno == errno.ENOTEMPTY:
                raise Conflict(f"there is a sandbox {record.id} already") from error
            raise

    def update(self, record: Record) -> None:
        file = self.directory(record.id) / FILE
        new = file.with_suffix(".new")
        new.write_text(encode(record))
        new.rename(file)

    def read(self, sandbox_id: str) -> Record:
        try:
            record = decode((self.directory(sandbox_id) / FILE).read_text())
        except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError) as error:
            raise not_found(sandbox_id) from error
        if record.instance != self.instance:
            raise not_found(sandbox_id)
        return record

    def all(self) -> Iterator[Record]:
        for path in sorted(self._directory.glob("*")):
            with suppress(SandboxNotFound):  # it is another's, or has gone since
                yield self.read(path.name)

    def remove(self, sandbox_id: str) -> None:
        directory = self.directory(sandbox_id)
        old = directory.with_name(f".old-{sandbox_id}")
        with suppress(FileNotFoundError):
            directory.rename(old)  # gone at once, whatever stops us on the way
            shutil.rmtree(old)


def not_found(sandbox_id: str) -> SandboxNotFound:
    return SandboxNotFound(f"there is no sandbox {sandbox_id!r}")


def encode(record: Record) -> str:
    return json.dumps(asdict(record), default=datetime.isoformat, indent=1)


def decode(text: str) -> Record:
    fields: dict[str, Any] = json.loads(text)
    workspace = fields["workspace"]
    return Record(
        id=fields["id"],
        instance=fields["instance"],
        owner=Owner(**fields["owner"]),
        created_at=datetime.fromisoformat(fields["created_at"]),
        workspace=workspace and Workspace(Owner(**workspace["owner"]), workspace["name"]),
        expires_at=fields["expires_at"] and datetime.fromisoformat(fields["expires_at"]),
        cgroups=tuple(fields["cgroups"]),
        init=fields["init"] and ProcessKey(**fields["init"]),
        monitor=fields["monitor"] and ProcessKey(**fields["monitor"]),
    )
