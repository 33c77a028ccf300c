import asyncio
from dataclasses import replace

import pytest

from airlock.model import Owner, SandboxSpec, Workspace
from airlock.sandbox.pool import Pool, default_limits
from airlock.settings import Settings
from unit.scripted import ScriptedEngine, greet

pytestmark = pytest.mark.anyio

SETTINGS = Settings(pool_min=1, pool_max=1)
ALICE = Owner("acme", "alice")
COMMON = SandboxSpec("sb_mine", ALICE, default_limits(SETTINGS))


@pytest.fixture
async def engine():
    return ScriptedEngine(greet)


@pytest.fixture
async def pool(engine):
    """A pool with one warm sandbox."""
    pool = Pool(engine, SETTINGS)
    await pool.start()
    async with asyncio.timeout(10):
        while not pool.report().spare:
            await asyncio.sleep(0)
    yield pool
    await pool.aclose()


async def test_a_common_run_takes_a_warm_sandbox(pool, engine):
    (spare,) = engine.specs
    async with pool.lease(COMMON) as sandbox:
        assert sandbox.id == spare.id
        assert pool.report().running == 1
    assert pool.report().hits == 1


async def test_nobody_gets_what_another_has_used(pool, engine):
    served = []
    for number in range(5):
        async with pool.lease(replace(COMMON, id=f"sb_{number}")) as sandbox:
            served.append(sandbox.id)
    await pool.aclose()
    assert len(set(served)) == 5
    assert set(served) <= set(engine.destroyed)


@pytest.mark.parametrize(
    "spec",
    [
        replace(COMMON, workspace=Workspace(ALICE, "proj")),
        replace(COMMON, limits=replace(COMMON.limits, pids=9)),
        replace(COMMON, image="other"),
    ],
    ids=["workspace", "limits", "image"],
)
async def test_a_run_that_asks_for_something_else_has_its_own_made(pool, spec):
    async with pool.lease(spec) as sandbox:
        assert sandbox.id == "sb_mine"
    assert pool.report().spare == 1


async def test_another_output_limit_is_no_other_sandbox(pool):
    async with pool.lease(replace(COMMON, limits=replace(COMMON.limits, output_bytes=1))) as sandbox:
        assert sandbox.id != "sb_mine"


async def test_a_claim_does_not_wait_for_a_refill(pool):
    async with pool.lease(COMMON), pool.lease(COMMON) as second:
        assert second.id == "sb_mine"
    assert pool.report().misses == 1


async def test_a_dead_spare_is_not_given_out(pool, engine):
    (spare,) = engine.specs
    engine.agent(spare.id).hang_up()
    async with asyncio.timeout(10):
        while engine.agent(spare.id).outbox.qsize():
            await asyncio.sleep(0)
    await asyncio.sleep(0)
    async with pool.lease(COMMON) as sandbox:
        assert sandbox.id != spare.id


async def test_the_end_of_the_pool_is_the_end_of_its_spares(pool, engine):
    await pool.aclose()
    assert {spec.id for spec in engine.specs} == set(engine.destroyed)
    report = pool.report()
    assert (report.spare, report.starting, report.running, report.ending) == (0, 0, 0, 0)
