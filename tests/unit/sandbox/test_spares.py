from airlock.sandbox.spares import MEMORY_SECONDS, Demand


def test_without_demand_the_least_is_kept():
    assert Demand(2, 16).target(now=100, refill_seconds=0.3) == 2


def test_demand_raises_the_target_up_to_the_most():
    demand = Demand(2, 16)
    for tick in range(100):
        demand.note(100 + tick / 10)
    assert demand.target(now=110, refill_seconds=0.3) == 2 + 6
    assert demand.target(now=110, refill_seconds=30) == 16


def test_demand_is_forgotten():
    demand = Demand(2, 16)
    for _ in range(100):
        demand.note(100)
    assert demand.target(now=100 + MEMORY_SECONDS + 1, refill_seconds=0.3) == 2


def test_no_pool_at_all_can_be_asked_for():
    demand = Demand(0, 0)
    demand.note(100)
    assert demand.target(now=100, refill_seconds=1) == 0
