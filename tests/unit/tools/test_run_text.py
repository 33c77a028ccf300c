from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airlock.model import RunEvent, RunOutput
from airlock.tools.run_answer import RunAnswer, RunText
from airlock.tools.run_text import StreamText, text_events, whole
from unit.api.serving import STARTED, finished


def pieces_of(data: bytes, cuts: list[int]) -> list[tuple[int, bytes]]:
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [(start, data[start:end]) for start, end in pairwise(edges)]


@given(st.binary() | st.text().map(str.encode), st.lists(st.integers(0, 10**6)))
def test_text_does_not_depend_on_how_the_bytes_come(data: bytes, cuts: list[int]):
    stream = StreamText("stdout")
    texts = [text for offset, piece in pieces_of(data, cuts) for text in stream.feed(offset, piece)]
    texts += stream.finish(len(data))
    assert "".join(text.text for text in texts) == data.decode(errors="replace")
    assert all(text.text for text in texts)


@given(st.text(min_size=1), st.lists(st.integers(0, 10**6)))
def test_each_text_starts_at_its_offset(source: str, cuts: list[int]):
    data = source.encode()
    stream = StreamText("stderr")
    texts = [text for offset, piece in pieces_of(data, cuts) for text in stream.feed(offset, piece)]
    for text in texts:
        assert data[text.offset :].startswith(text.text.encode())


def test_a_gap_becomes_a_line_of_its_own():
    stream = StreamText("stdout")
    texts = [*stream.feed(0, b"he\xe2\x82"), *stream.feed(100, b"tail"), *stream.finish(104)]
    assert texts == [
        RunText("stdout", 0, "he"),
        RunText("stdout", 2, "\ufffd"),
        RunText("stdout", 4, "\n[96 bytes left out]\n"),
        RunText("stdout", 100, "tail"),
    ]


def test_an_end_that_was_not_kept_is_marked():
    stream = StreamText("stdout")
    assert [*stream.feed(0, b"head"), *stream.finish(1004)] == [
        RunText("stdout", 0, "head"),
        RunText("stdout", 4, "\n[1000 bytes left out]\n"),
    ]


async def script(*events: RunEvent) -> AsyncIterator[RunEvent]:
    for event in events:
        yield event


@pytest.mark.anyio
async def test_the_streams_are_kept_apart():
    events = script(
        STARTED,
        RunOutput("stdout", 0, b"\xe2\x82"),
        RunOutput("stderr", 0, b"!"),
        RunOutput("stdout", 2, b"\xac"),
        finished(stdout_bytes=3, stderr_bytes=1),
    )
    answer = await whole(text_events(events))
    assert (answer.stdout, answer.stderr) == ("€", "!")


@pytest.mark.anyio
async def test_the_last_event_has_no_text():
    events = [
        event async for event in text_events(script(STARTED, RunOutput("stdout", 0, b"1\n"), finished()))
    ]
    assert events[:2] == [STARTED, RunText("stdout", 0, "1\n")]
    assert isinstance(events[2], RunAnswer)
    assert events[2].stdout == ""


@pytest.mark.anyio
async def test_a_run_that_just_stops_is_a_fault():
    with pytest.raises(RuntimeError):
        await whole(text_events(script(STARTED)))
