import json
import logging
import sys
import threading

import httpx
import pytest

from airlock.api.logs import logging_to_stderr
from unit.api.serving import CODE


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[dict]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


@pytest.mark.anyio
async def test_a_request_leaves_one_line(client: httpx.AsyncClient, capsys: pytest.CaptureFixture[str]):
    with logging_to_stderr("info"):
        await client.post("/v1/run_code", json=CODE, headers={"X-Request-ID": "me-1"})
    (line,) = [line for line in lines_of(capsys) if line["logger"] == "airlock.api.access"]
    assert line.pop("duration_ms") > 0
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "info",
        "logger": "airlock.api.access",
        "message": "POST /v1/run_code 200",
        "request_id": "me-1",
        "tenant": "default",
        "method": "POST",
        "path": "/v1/run_code",
        "status": 200,
    }


@pytest.mark.anyio
async def test_probes_are_not_worth_a_line(client: httpx.AsyncClient, capsys: pytest.CaptureFixture[str]):
    with logging_to_stderr("info"):
        await client.get("/healthz")
    assert [line for line in lines_of(capsys) if line["logger"] == "airlock.api.access"] == []


def test_an_exception_stays_on_one_line(capsys: pytest.CaptureFixture[str]):
    with logging_to_stderr("info"):
        try:
            raise RuntimeError("what\nhappened")
        except RuntimeError:
            logging.getLogger("there").exception("it %s", "failed")
    (line,) = lines_of(capsys)
    assert (line["message"], line["level"], line["request_id"]) == ("it failed", "error", None)
    assert "RuntimeError: what\nhappened" in line["exception"]


def test_the_level_holds(capsys: pytest.CaptureFixture[str]):
    with logging_to_stderr("warning"):
        logging.getLogger("there").info("no")
        logging.getLogger("there").warning("yes")
    assert [line["message"] for line in lines_of(capsys)] == ["yes"]


def test_a_reader_that_does_not_read_delays_nobody(monkeypatch: pytest.MonkeyPatch):
    read = threading.Event()
    written: list[int] = []

    class Stalled:
        def write(self, _: str) -> None:
            assert read.wait(30)
            written.append(1)

        def flush(self) -> None: ...

    monkeypatch.setattr(sys, "stderr", Stalled())
    monkeypatch.setattr("airlock.api.logs.MAX_WAITING_RECORDS", 10)
    with logging_to_stderr("info"):
        for _ in range(1000):
            logging.getLogger("there").info("line")
        read.set()
    assert 1 <= len(written) <= 12
