"""The `airlock` command."""

import argparse
import sys
from collections.abc import Sequence

from airlock import __version__
from airlock.cli import keys, serve
from airlock.cli.settings import Failure


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="airlock", description="Runs untrusted code in locked containers and streams what it prints."
    )
    parser.add_argument("--version", action="version", version=f"airlock {__version__}")
    commands = parser.add_subparsers(title="commands", required=True)
    serve.add_command(commands)
    keys.add_commands(commands)
    arguments = parser.parse_args(argv)
    try:
        arguments.run(arguments)
    except Failure as failure:
        print(f"airlock: {failure}", file=sys.stderr)
        return 2
    return 0
