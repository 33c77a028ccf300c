"""The log: one JSON object a line on stderr.

Whoever logs only puts the record into a queue; a thread of its own writes it, so a slow stderr delays no
caller.
"""

import json
import logging
import queue
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener
from typing import Any

from airlock.api.request_ids import request_id

MAX_WAITING_RECORDS = 10_000


@contextmanager
def logging_to_stderr(level: str) -> Iterator[None]:
    """Sends the whole process's log there while the block runs."""
    writer = logging.StreamHandler(sys.stderr)
    writer.setFormatter(JsonFormatter())
    records: queue.SimpleQueue[Any] = queue.SimpleQueue()
    handler = DroppingQueueHandler(records)
    root = logging.getLogger()
    before = root.level
    root.setLevel(level.upper())
    root.addHandler(handler)
    listener = QueueListener(records, writer)
    listener.start()
    try:
        yield
    finally:
        listener.stop()
        root.removeHandler(handler)
        root.setLevel(before)


class DroppingQueueHandler(QueueHandler):
    """Loses records when nobody reads stderr, rather than wait."""

    def __init__(self, records: "queue.SimpleQueue[Any]") -> None:
        super().__init__(records)
        self._records = records

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        record.request_id = request_id.get()  # the writing thread has another context
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        # The queue itself has no bound: the listener's word to stop must always fit.
        if self._records.qsize() < MAX_WAITING_RECORDS:
            self._records.put_nowait(record)


class JsonFormatter(logging.Formatter):
    """`logger.info("…", extra={"fields": {…}})` adds fields of its own."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "request_id": getattr(record, "request_id", None),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)
