import json
from typing import Any

import pytest
from pydantic import Field

from airlock.errors import InvalidArguments, InvalidJson
from airlock.tools.arguments import Argument, Arguments, Name, NulFree, Text, parse


class Sample(Arguments):
    text: Text = ""
    word: NulFree = ""
    argument: Argument = ""
    name: Name = "a"
    count: int = 0
    nested: dict[str, dict[str, int]] = Field(default={})


def refused(body: Any) -> InvalidArguments:
    with pytest.raises(InvalidArguments) as caught:
        parse(Sample, body if isinstance(body, bytes) else json.dumps(body).encode())
    return caught.value


def test_good_ones_are_parsed():
    assert parse(Sample, b'{"text": "\\u0000\xe2\x82\xac", "count": 3}') == Sample(text="\0€", count=3)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff",
        b"\xef\xbb\xbf{}",
        b'{"text": "\xed\xa0\x80"}',
        b'{"text": "\\udc00"}',
        b'{"nested": ' * 300,
        b'{"count": ' + b"9" * 5000 + b"}",
        b"{} {}",
        b"{'text': 1}",
    ],
    ids=lambda body: str(body[:20]),
)
def test_what_is_not_json(body: bytes):
    assert isinstance(refused(body), InvalidJson)


@pytest.mark.parametrize("body", [b'{"count": 1, "count": 1}', b'{"nested": {"a": {"b": 1, "b": 2}}}'])
def test_a_name_that_stands_twice(body: bytes):
    assert isinstance(refused(body), InvalidJson)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"count": "1"}, "count"),
        ({"count": True}, "count"),
        ({"count": 1.5}, "count"),
        ({"count": None}, "count"),
        ({"text": 1}, "text"),
        ({"word": "a\0b"}, "word"),
        ({"argument": "x" * (128 << 10)}, "argument"),
        ({"argument": "\u20ac" * (43 << 10)}, "argument"),
        ({"name": "../x"}, "name"),
        ({"name": ""}, "name"),
        ({"name": "a\n"}, "name"),
        ({"name": "a" * 65}, "name"),
        ({"nested": {"a": {"b": "c"}}}, "nested.a.b"),
        ({"other": 1}, "other"),
        ([], ""),
        (None, ""),
    ],
)
def test_bad_ones_are_named(body: Any, field: str):
    error = refused(body)
    assert [row["field"] for row in error.details["fields"]] == [field]
    assert error.message.startswith(field)


def test_the_input_is_not_sent_back():
    error = refused({"k" * 5000: "v" * 5000, **{f"field-{n}": n for n in range(500)}})
    assert len(json.dumps(error.details)) < 2000
    assert error.details["errors"] == 501


def test_lone_surrogates_are_refused_wherever_they_come_from():
    with pytest.raises(ValueError, match="surrogate"):
        Sample(text="\ud800")


def test_the_longest_argument_fits():
    assert Sample(argument="x" * ((128 << 10) - 1))
