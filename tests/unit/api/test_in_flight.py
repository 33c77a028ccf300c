import asyncio

import pytest

from airlock.api import in_flight

pytestmark = pytest.mark.anyio

HTTP = {"type": "http"}


async def test_the_end_of_a_request_is_waited_for():
    tasks: in_flight.Tasks = set()
    begun, cleaned_up = asyncio.Event(), asyncio.Event()

    async def application(*_: object) -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned_up.set()

    request = asyncio.create_task(in_flight.InFlight(application, tasks)(HTTP, None, None))
    await begun.wait()
    request.cancel()
    await in_flight.ended(tasks)
    assert cleaned_up.is_set()
    assert not tasks


async def test_a_request_that_does_not_end_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(in_flight, "CLEAN_UP_SECONDS", 0.01)
    stuck = asyncio.create_task(asyncio.Event().wait())
    await in_flight.ended({stuck})
    stuck.cancel()


async def test_with_nothing_under_way_there_is_nothing_to_wait_for():
    await in_flight.ended(set())
