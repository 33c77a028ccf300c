import asyncio

import pytest

from airlock.api.disconnect import CallerGone, unless_gone

pytestmark = pytest.mark.anyio


class Caller:
    def __init__(self) -> None:
        self.hangs_up = asyncio.Event()
        self.asked = 0

    async def receive(self) -> dict[str, str]:
        self.asked += 1
        if self.asked == 1:
            return {"type": "http.request"}
        await self.hangs_up.wait()
        return {"type": "http.disconnect"}


async def test_work_gives_its_result():
    async def work() -> int:
        return 7

    assert await unless_gone(Caller().receive, work()) == 7


async def test_work_gives_its_error():
    async def work() -> int:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await unless_gone(Caller().receive, work())


async def test_a_caller_that_goes_cancels_the_work_and_its_cleanup_is_waited_for():
    caller, cleaned_up = Caller(), asyncio.Event()

    async def work() -> None:
        try:
            caller.hangs_up.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned_up.set()

    with pytest.raises(CallerGone):
        await unless_gone(caller.receive, work())
    assert cleaned_up.is_set()


async def test_cancelling_the_call_cancels_the_work():
    started, cleaned_up = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            cleaned_up.set()

    call = asyncio.create_task(unless_gone(Caller().receive, work()))
    await started.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert cleaned_up.is_set()
