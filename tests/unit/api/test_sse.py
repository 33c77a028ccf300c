import asyncio
import json

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airlock.api import sse
from unit.api.serving import CODE, STARTED, ScriptedRuns, finished

STREAM = {"Accept": "text/event-stream"}


@given(st.text(), st.none() | st.integers(0, 10**9))
def test_an_event_is_three_lines_whatever_the_text(text: str, number: int | None):
    encoded = sse.encode("stdout", {"text": text}, number).decode()
    lines = encoded.removesuffix("\n\n").split("\n")
    assert lines.pop(0) == "event: stdout"
    if number is not None:
        assert lines.pop(0) == f"id: {number}"
    (data,) = lines
    assert "\r" not in data
    assert json.loads(data.removeprefix("data: ")) == {"text": text}


@pytest.mark.anyio
async def test_a_comment_keeps_an_idle_stream_open(
    tcp_client: httpx.AsyncClient, runs: ScriptedRuns, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sse, "COMMENT_SECONDS", 0.01)
    ends = asyncio.Event()
    runs.script = (STARTED, ends, finished(stdout_bytes=0))
    comments, events = 0, []
    async with tcp_client.stream("POST", "/v1/run_code", json=CODE, headers=STREAM) as response:
        async for line in response.aiter_lines():
            if line.startswith(":"):
                comments += 1
                ends.set()
            if line.startswith("event: "):
                events.append(line)
    assert comments >= 1
    assert events == ["event: started", "event: exited"]


@pytest.mark.anyio
async def test_a_reader_that_takes_nothing_is_gone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sse, "STALLED_SECONDS", 0.01)
    closed = asyncio.Event()

    async def pieces():
        try:
            while True:
                yield b"x"
        finally:
            closed.set()

    async def receive():
        await asyncio.Event().wait()

    async def send(message):
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    with pytest.raises(sse.CallerGone):
        await sse.EventStream(pieces())({"type": "http"}, receive, send)
    assert closed.is_set()


def test_what_some_clients_take_for_a_line_break_is_escaped():
    line = sse.encode("stdout", {"text": "a\u2028b\u2029c\u0085d"})
    assert line.decode().splitlines()[1] == 'data: {"text":"a\\u2028b\\u2029c\\u0085d"}'
