"""`Idempotency-Key`: a call that is sent again gets the answer of the first, and runs once.

A key is claimed in the store before the call begins, and the answer is written there when it is known. So
a key that is claimed, has no answer and is not under way in this process belongs to a call that was cut
off, by a crash or by its caller hanging up, or that failed half-way; nobody can tell what it did.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from airlock.api.answer_store import AnswerStore
from airlock.api.problems import KINDS, status_of
from airlock.api.request_ids import is_sane
from airlock.errors import AirlockError, IdempotencyConflict, IdempotencyLost, InvalidArguments
from airlock.model import Principal

MAX_KEY_CHARACTERS = 255


@dataclass(frozen=True, slots=True)
class UnderWay:
    body: str
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class Call:
    """A call under a key. `answer` is that of an earlier one, or None: then run it, and `keep` the answer."""

    def __init__(self, store: AnswerStore, key: str, answer: str | None) -> None:
        self._store = store
        self._key = key
        self.answer = answer
        self.has_effects = False

    def has_begun(self) -> None:
        """From here on the call may have done something, so it must not be made a second time."""
        self.has_effects = True

    async def keep(self, answer: str) -> None:
        await self._store.keep(self._key, "answered", answer)


class Idempotency:
    def __init__(self, store: AnswerStore) -> None:
        self._store = store
        self._under_way: dict[str, UnderWay] = {}

    @asynccontextmanager
    async def call(self, key: str, body: bytes) -> AsyncIterator[Call]:
        """Holds the key for the block; a call under way with the same key is waited for."""
        digest = hashlib.sha256(body).hexdigest()
        while (other := self._under_way.get(key)) is not None:
            _refuse_another_body(other.body, digest)
            await other.ended.wait()
        this = self._under_way[key] = UnderWay(digest)
        try:
            call = Call(self._store, key, await self._claim(key, digest))
            try:
                yield call
            except Exception as error:  # any failure settles the key, and goes on its way
                await self._settle(key, call, error)
                raise
        finally:
            del self._under_way[key]
            this.ended.set()

    async def _claim(self, key: str, digest: str) -> str | None:
        """The answer to give again; None if the key was free."""
        earlier = await self._store.claim(key, digest)
        if earlier is None:
            return None
        _refuse_another_body(earlier.body, digest)
        if earlier.answer is None:
            raise IdempotencyLost(
                "The first call under this Idempotency-Key was cut off, and what it did is not known. "
                "Use a new key to run it again."
            )
        if earlier.outcome == "failed":
            raise _error_from(earlier.answer)
        return earlier.answer

    async def _settle(self, key: str, call: Call, error: Exception) -> None:
        """Keeps an error that would come again; forgets a call that may go better the next time."""
        if isinstance(error, AirlockError) and not error.retryable and status_of(error) < 500:
            await self._store.keep(key, "failed", _error_to_json(error))
        elif not call.has_effects:
            await self._store.forget(key)


def scoped_key(principal: Principal, route: str, key: str) -> str:
    """One word for a caller's key, which means nothing on another route or to another user."""
    if not is_sane(key, MAX_KEY_CHARACTERS):
        raise InvalidArguments(
            f"Idempotency-Key must have 1 to {MAX_KEY_CHARACTERS} printable ASCII characters."
        )
    parts = (principal.tenant, principal.user or "", route, key)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _refuse_another_body(first: str, this: str) -> None:
    if first != this:
        raise IdempotencyConflict(
            "This Idempotency-Key was used with another body. Use a new key for a new call."
        )


def _error_to_json(error: AirlockError) -> str:
    return json.dumps({"code": error.code, "message": error.message, "details": error.details})


def _error_from(text: str) -> AirlockError:
    kept = json.loads(text)
    kind = next(kind for kind in KINDS if kind.code == kept["code"])
    return kind(kept["message"], details=kept["details"])
