"""What a run answers: piece by piece, or whole."""

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict
from pydantic.config import JsonDict

from airlock.model import RunFinished, RunStarted, Status, StreamName

EXAMPLE: JsonDict = {
    "status": "exited",
    "exit_code": 0,
    "signal": None,
    "stdout": "1\n",
    "stderr": "",
    "truncated": False,
    "output_bytes": {"stdout": 2, "stderr": 0},
    "duration_ms": 3.1,
    "usage": {"cpu_ms": 2.0, "peak_memory_bytes": 9000000},
    "run_id": "run_5f0c1d9a7be2468acf13",
    "sandbox": "sb_90d2b7c4e5f60718293a",
    "workspace": None,
    "engine": "docker",
}


class OutputBytes(BaseModel):
    """What the program wrote, kept or not."""

    stdout: int
    stderr: int


class UsageAnswer(BaseModel):
    cpu_ms: float
    peak_memory_bytes: int


class RunAnswer(BaseModel):
    """How a program ended. Its own failure is a `status`, not an error."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    status: Status
    exit_code: int | None
    signal: str | None
    stdout: str
    stderr: str
    truncated: bool
    output_bytes: OutputBytes
    duration_ms: float
    usage: UsageAnswer | None
    run_id: str
    sandbox: str
    workspace: str | None
    engine: str


@dataclass(frozen=True, slots=True)
class RunText:
    """A piece of one stream, with the byte offset at which it starts."""

    stream: StreamName
    offset: int
    text: str


TextEvent = RunStarted | RunText | RunAnswer
"""A run as callers see it. The RunAnswer comes last, with no text: that went before it as RunText."""


def answer_without_text(end: RunFinished) -> RunAnswer:
    usage = end.usage
    return RunAnswer(
        status=end.status,
        exit_code=end.exit_code,
        signal=end.signal,
        stdout="",
        stderr="",
        truncated=end.truncated,
        output_bytes=OutputBytes(stdout=end.stdout_bytes, stderr=end.stderr_bytes),
        duration_ms=end.duration_ms,
        usage=UsageAnswer(cpu_ms=usage.cpu_ms, peak_memory_bytes=usage.peak_memory_bytes) if usage else None,
        run_id=end.run_id,
        sandbox=end.sandbox,
        workspace=end.workspace,
        engine=end.engine,
    )


class Transcript:
    """Puts the pieces of a run together."""

    def __init__(self) -> None:
        self._texts: dict[StreamName, list[str]] = {"stdout": [], "stderr": []}

    def add(self, text: RunText) -> None:
        self._texts[text.stream].append(text.text)

    def complete(self, answer: RunAnswer) -> RunAnswer:
        return answer.model_copy(
            update={"stdout": "".join(self._texts["stdout"]), "stderr": "".join(self._texts["stderr"])}
        )


def replay(answer: RunAnswer) -> Iterator[TextEvent]:
    """The pieces of a run that is over."""
    yield RunStarted(answer.run_id, answer.sandbox)
    if answer.stdout:
        yield RunText("stdout", 0, answer.stdout)
    if answer.stderr:
        yield RunText("stderr", 0, answer.stderr)
    yield answer.model_copy(update={"stdout": "", "stderr": ""})
