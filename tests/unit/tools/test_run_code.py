import json
from typing import Any

import pytest

from airlock.errors import InvalidArguments, PathOutsideWorkspace
from airlock.model import Code, RunRequest
from airlock.settings import Settings
from airlock.tools.arguments import parse
from airlock.tools.run_code import EXAMPLE, RunCode, request


def asked(settings: Settings | None = None, **fields: Any) -> RunRequest:
    body = {"language": "python", "code": "print(1)", **fields}
    return request(parse(RunCode, json.dumps(body).encode()), settings or Settings())


def test_the_example_of_the_contract():
    assert asked(**EXAMPLE) == RunRequest(
        program=Code("python", b"print(1)"),
        timeout=60,
        limits=asked().limits,
        files={"data.csv": b"a,b\n1,2\n"},
    )


def test_text_becomes_bytes():
    run = asked(code="é\0", stdin="€", files={"é": "ü"}, args=["ä"], env={"Ö": "ß"})
    assert run.program == Code("python", "é\0".encode())
    assert run.stdin == "€".encode()
    assert run.files == {"é": "ü".encode()}
    assert (run.args, run.env) == (("ä",), {"Ö": "ß"})


def test_no_input_is_not_empty_input():
    assert asked().stdin is None
    assert asked(stdin="").stdin == b""


def test_the_longest_timeout():
    assert asked(timeout=300).timeout == 300
    with pytest.raises(InvalidArguments, match=r"timeout: .* 300"):
        asked(timeout=300.1)


def test_the_default_timeout_is_never_too_long():
    assert asked(Settings(max_timeout=5)).timeout == 5
    with pytest.raises(InvalidArguments):
        asked(Settings(max_timeout=5), timeout=60)


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../b"])
@pytest.mark.parametrize("field", ["cwd", "files"])
def test_paths_stay_inside(path: str, field: str):
    with pytest.raises(PathOutsideWorkspace):
        asked(**{field: path if field == "cwd" else {path: ""}})


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"language": "cobol"}, "language"),
        ({"language": "Python"}, "language"),
        ({"code": None}, "code"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": -1}, "timeout"),
        ({"timeout": "10"}, "timeout"),
        ({"args": ["a\0"]}, "args.0"),
        ({"args": "a"}, "args"),
        ({"env": {"A": "\0"}}, "env.A"),
        ({"env": {"A=B": ""}}, "env.A=B"),
        ({"env": {"": ""}}, "env."),
        ({"env": {"A\0": ""}}, "env.A\0"),
        ({"env": {"A": 1}}, "env.A"),
        ({"files": {"a" * 256: ""}}, "files." + "a" * 80),
        ({"files": {"a\0": ""}}, "files.a\0"),
        ({"files": {".": ""}}, "files.."),
        ({"files": {str(n): "" for n in range(1001)}}, "files"),
        ({"cwd": ""}, "cwd"),
        ({"workspace": "a/b"}, "workspace"),
        ({"workspace": ""}, "workspace"),
        ({"sandbox": ".."}, "sandbox"),
        ({"fresh": 1}, "fresh"),
        ({"limits": {"cpu": 1}}, "limits.cpu"),
        ({"limits": {"cpus": 1e999}}, "limits.cpus"),
        ({"tty": True}, "tty"),
    ],
)
def test_what_is_refused_and_how_it_is_named(fields: dict, named: str):
    with pytest.raises(InvalidArguments) as caught:
        asked(**fields)
    assert named in [row["field"] for row in caught.value.details["fields"]]


def test_what_the_kernel_takes_at_most():
    assert asked(args=["x" * 131_071])
    assert asked(env={"A": "x" * 131_069})
    with pytest.raises(InvalidArguments, match="`env` entry"):
        asked(env={"A": "x" * 131_070})
    with pytest.raises(InvalidArguments, match="over 524288 bytes"):
        asked(args=["x" * 100_000] * 3, env={str(n): "x" * 100_000 for n in range(3)})
    with pytest.raises(InvalidArguments, match="over 524288 bytes"):
        asked(args=[""] * 60_000)


def test_unknown_languages_are_told_the_known_ones():
    with pytest.raises(InvalidArguments, match="use one of bash, javascript, python"):
        asked(language="cobol")
