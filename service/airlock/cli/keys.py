"""`airlock keys`: make API keys, and show which there are."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from airlock.api.keys import BadKeys, append_key, new_key, read_keys, record
from airlock.cli.settings import Failure, load_settings
from airlock.model import Role

if TYPE_CHECKING:
    from argparse import _SubParsersAction

COLUMNS = "{:<26} {:<20} {:<20} {:<22} {}"


def add_commands(commands: "_SubParsersAction[argparse.ArgumentParser]") -> None:
    keys = commands.add_parser("keys", help="API keys").add_subparsers(title="commands", required=True)

    create = keys.add_parser("create", help="make a key, print it once, and keep its hash in the key file")
    create.add_argument("--tenant", required=True)
    create.add_argument("--user", help="whose things alone the key sees; without it, all of the tenant's")
    create.add_argument(
        "--role", action="append", type=Role, choices=list(Role), help="agent if none is given"
    )
    create.set_defaults(run=_create)

    listing = keys.add_parser("list", help="show the keys of the key file")
    listing.set_defaults(run=_list)

    for command in (create, listing):
        command.add_argument("--file", type=Path, help="the key file; AIRLOCK_API_KEYS_FILE if not given")


def _create(arguments: argparse.Namespace) -> None:
    file = _key_file(arguments)
    key = new_key()
    try:
        append_key(
            file, record(key, arguments.tenant, arguments.user, frozenset(arguments.role or {Role.AGENT}))
        )
    except ValidationError:
        raise Failure("a tenant or user has 1 to 128 letters, digits and . _ @ -") from None
    except OSError as error:
        raise Failure(f"the key file can't be written: {error}") from None
    print(key)


def _list(arguments: argparse.Namespace) -> None:
    try:
        keys = read_keys(_key_file(arguments))
    except BadKeys as error:
        raise Failure(str(error)) from None
    print(COLUMNS.format("ID", "TENANT", "USER", "ROLES", "CREATED"))
    for key in keys:
        roles = "+".join(sorted(key.roles))
        print(COLUMNS.format(key.id, key.tenant, key.user or "-", roles, key.created_at.isoformat()))


def _key_file(arguments: argparse.Namespace) -> Path:
    # Settings may refuse to load for want of a key, so they are asked only if they must be.
    file: Path | None = arguments.file or load_settings().api_keys_file
    if file is None:
        raise Failure("say where the keys are: --file FILE, or AIRLOCK_API_KEYS_FILE")
    return file
