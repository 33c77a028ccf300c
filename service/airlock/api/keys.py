"""API keys: how they are made, and how they are written down, which is never the key itself.

A key from `new_key` has 256 random bits, so one round of SHA-256 is enough to keep it from being guessed.
"""

import fcntl
import hashlib
import os
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from airlock.model import Principal, Role, new_id

DEFAULT_TENANT = "default"

TenantOrUser = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,127}$")]


class BadKeys(ValueError):
    """The configured keys can't be understood. The message is for the operator and has no key in it."""


class Key(BaseModel):
    """One line of the key file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    tenant: TenantOrUser = DEFAULT_TENANT
    user: TenantOrUser | None = None
    roles: Annotated[frozenset[Role], Field(min_length=1)] = frozenset({Role.AGENT})
    created_at: datetime

    @property
    def principal(self) -> Principal:
        return Principal(self.tenant, self.user, self.roles)


def new_key() -> str:
    return f"airlock_{secrets.token_urlsafe(32)}"


def digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def record(key: str, tenant: str, user: str | None, roles: frozenset[Role]) -> Key:
    return Key(
        id=new_id("key"),
        sha256=digest(key),
        tenant=tenant,
        user=user,
        roles=roles,
        created_at=datetime.now(UTC).replace(microsecond=0),
    )


def parse_keys(text: str) -> Iterator[Key]:
    """The keys of `KEY[:TENANT[:USER[:ROLE+ROLE]]],…`."""
    for number, entry in enumerate(text.split(","), 1):
        if not entry.strip():
            continue
        key, tenant, user, roles, *rest = [*entry.strip().split(":"), "", "", ""]
        try:
            if not key or any(rest):
                raise ValueError
            named = frozenset(Role(role) for role in roles.split("+")) if roles else frozenset({Role.AGENT})
            yield record(key, tenant or DEFAULT_TENANT, user or None, named)
        except ValueError:
            raise BadKeys(
                f"entry {number} of AIRLOCK_API_KEYS is not KEY[:TENANT[:USER[:ROLE+ROLE]]], "
                f"with roles out of {', '.join(Role)}"
            ) from None


def read_keys(file: Path) -> list[Key]:
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadKeys(f"the key file can't be read: {error}") from None
    keys = []
    for number, line in enumerate(lines, 1):
        try:
            keys.append(Key.model_validate_json(line))
        except ValidationError:
            raise BadKeys(
                f"line {number} of {file} is not a key: make one by `airlock keys create`"
            ) from None
    return keys


def append_key(file: Path, key: Key) -> None:
    """Add a line. Writers at the same time wait for each other."""
    descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.fchmod(descriptor, 0o600)
        size = os.fstat(descriptor).st_size
        ends_in_a_line = not size or os.pread(descriptor, 1, size - 1) == b"\n"
        os.write(descriptor, b"" if ends_in_a_line else b"\n")
        os.write(descriptor, key.model_dump_json().encode() + b"\n")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
