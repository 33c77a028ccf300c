"""Where the answers of idempotent calls outlive us: a SQLite file, and the one thread that uses it."""

import asyncio
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

T = TypeVar("T")

Outcome = Literal["unknown", "answered", "failed"]

SCHEMA = """
CREATE TABLE IF NOT EXISTS calls (
    key TEXT PRIMARY KEY,
    body TEXT NOT NULL,
    outcome TEXT NOT NULL DEFAULT 'unknown',
    answer TEXT,
    claimed_at REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS calls_by_age ON calls (claimed_at);
"""


@dataclass(frozen=True, slots=True)
class EarlierCall:
    """What is known of a call: a digest of its body, and how it went. `answer` is JSON."""

    body: str
    outcome: Outcome
    answer: str | None


@asynccontextmanager
async def answer_store(file: Path, ttl: float) -> AsyncIterator["AnswerStore"]:
    with ThreadPoolExecutor(1, "answer-store") as thread:
        store = AnswerStore(
            thread, await asyncio.get_running_loop().run_in_executor(thread, _open, file), ttl
        )
        try:
            yield store
        finally:
            await store.aclose()


def _open(file: Path) -> sqlite3.Connection:
    file.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(file, os.O_CREAT | os.O_CLOEXEC, 0o600))  # programs' output is nobody else's
    database = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    database.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;" + SCHEMA)
    return database


class AnswerStore:
    def __init__(self, thread: Executor, database: sqlite3.Connection, ttl: float) -> None:
        self._thread = thread
        self._database = database
        self._ttl = ttl

    async def aclose(self) -> None:
        await self._run(self._database.close)

    async def claim(self, key: str, body: str) -> EarlierCall | None:
        """None if the key was free and is now taken, else the call that has it."""

        def claim() -> EarlierCall | None:
            now = time.time()
            self._database.execute("DELETE FROM calls WHERE claimed_at < ?", (now - self._ttl,))
            made = self._database.execute(
                "INSERT OR IGNORE INTO calls (key, body, claimed_at) VALUES (?, ?, ?)", (key, body, now)
            )
            if made.rowcount:
                return None
            row = self._database.execute("SELECT body, outcome, answer FROM calls WHERE key = ?", (key,))
            return EarlierCall(*row.fetchone())

        return await self._run(claim)

    async def keep(self, key: str, outcome: Outcome, answer: str) -> None:
        update = "UPDATE calls SET outcome = ?, answer = ? WHERE key = ?"
        await self._run(lambda: self._database.execute(update, (outcome, answer, key)))

    async def forget(self, key: str) -> None:
        await self._run(lambda: self._database.execute("DELETE FROM calls WHERE key = ?", (key,)))

    async def _run(self, work: Callable[[], T]) -> T:
        """Work that has begun is never half done: a caller that is cancelled leaves it to finish."""
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, work))
