import json
from typing import Any

import pytest

from airlock.errors import InvalidArguments
from airlock.model import Command, RunRequest
from airlock.settings import Settings
from airlock.tools.arguments import parse
from airlock.tools.run_command import RunCommand, request


def asked(**fields: Any) -> RunRequest:
    return request(parse(RunCommand, json.dumps(fields).encode()), Settings())


@pytest.mark.parametrize(
    ("fields", "argv"),
    [
        ({"command": "npm test"}, ("/bin/sh", "-lc", "npm test")),
        ({"command": 'echo "$1"', "args": ["a b"]}, ("/bin/sh", "-lc", 'echo "$1"', "sh", "a b")),
        ({"command": ["npm", "test"]}, ("npm", "test")),
        ({"command": ["npm"], "args": ["test", ""]}, ("npm", "test", "")),
    ],
)
def test_what_is_run(fields: dict, argv: tuple[str, ...]):
    run = asked(**fields)
    assert run.program == Command(argv)
    assert run.args == ()


def test_thirty_seconds_by_default():
    assert asked(command="ls").timeout == 30


@pytest.mark.parametrize("command", ["", [], None, 5, {}, ["ls", 5], [["ls"]]])
def test_what_is_no_command_is_told_in_one_sentence(command: Any):
    with pytest.raises(InvalidArguments, match=r"^command: Give a line for the shell, or a list") as caught:
        asked(command=command)
    assert len(caught.value.details["fields"]) == 1


@pytest.mark.parametrize("command", ["a\0b", ["a", "b\0"]])
def test_nul_bytes_are_refused(command: Any):
    with pytest.raises(InvalidArguments, match=r"^command: .*NUL"):
        asked(command=command)


def test_the_command_counts_among_the_arguments():
    with pytest.raises(InvalidArguments, match="over 524288 bytes"):
        asked(command=["x" * 100_000] * 3, args=["x" * 100_000] * 3)
    with pytest.raises(InvalidArguments, match="131072 bytes or more"):
        asked(command="x" * 131_072)
