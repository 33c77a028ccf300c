"""Where the bytes of a program become text, as they come."""

import codecs
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing

from airlock.model import RunEvent, RunFinished, RunOutput, RunStarted, StreamName
from airlock.tools.run_answer import RunAnswer, RunText, TextEvent, Transcript, answer_without_text


async def text_events(events: AsyncGenerator[RunEvent, None]) -> AsyncGenerator[TextEvent, None]:
    streams = {"stdout": StreamText("stdout"), "stderr": StreamText("stderr")}
    async with aclosing(events):
        async for event in events:
            match event:
                case RunStarted():
                    yield event
                case RunOutput(stream, offset, data):
                    for text in streams[stream].feed(offset, data):
                        yield text
                case RunFinished():
                    for text in streams["stdout"].finish(event.stdout_bytes):
                        yield text
                    for text in streams["stderr"].finish(event.stderr_bytes):
                        yield text
                    yield answer_without_text(event)


async def whole(events: AsyncGenerator[TextEvent, None]) -> RunAnswer:
    """The run as one answer."""
    transcript = Transcript()
    async with aclosing(events):
        async for event in events:
            if isinstance(event, RunText):
                transcript.add(event)
            elif isinstance(event, RunAnswer):
                return transcript.complete(event)
    raise RuntimeError("the run ended without an answer")


class StreamText:
    """One stream: a character may come in pieces, and bytes that were not kept leave a gap."""

    def __init__(self, stream: StreamName) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._end = 0
        self._undecoded = 0

    def feed(self, offset: int, data: bytes) -> Iterator[RunText]:
        if offset > self._end:
            yield from self._skip_to(offset)
        yield from self._decode(data)

    def finish(self, total: int) -> Iterator[RunText]:
        if total > self._end:
            yield from self._skip_to(total)
        else:
            yield from self._decode(b"", final=True)

    def _skip_to(self, offset: int) -> Iterator[RunText]:
        yield from self._decode(b"", final=True)
        yield RunText(self._stream, self._end, f"\n[{offset - self._end} bytes left out]\n")
        self._end = offset

    def _decode(self, data: bytes, *, final: bool = False) -> Iterator[RunText]:
        start = self._end - self._undecoded
        text = self._decoder.decode(data, final)
        self._end += len(data)
        self._undecoded = len(self._decoder.getstate()[0])
        if text:
            yield RunText(self._stream, start, text)
