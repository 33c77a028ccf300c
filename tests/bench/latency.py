"""How long `print(1)` takes over HTTP, with the pool and without: .venv/bin/python tests/bench/latency.py"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from e2e.conftest import ENGINES, eventually, serving

CALLS = 30
SPACING_SECONDS = 0.4
POOLS = {"warm": {"pool_min": "4"}, "made for the call": {"pool_min": "0", "pool_max": "0"}}


def median_ms(engine: str, pool: dict[str, str]) -> float:
    times = []
    with (
        tempfile.TemporaryDirectory() as data,
        serving(engine, Path(data), log_level="error", **pool) as service,
        service.client() as client,
    ):
        spares = int(pool["pool_min"])
        eventually(lambda: client.get("/readyz").json()["pool"]["spare"] >= spares)
        for _ in range(CALLS):
            started = time.perf_counter()
            answer = client.post("/v1/run_code", json={"language": "python", "code": "print(1)"})
            times.append((time.perf_counter() - started) * 1000)
            assert answer.json()["stdout"] == "1\n", answer.text
            time.sleep(SPACING_SECONDS)
    return statistics.median(times)


for engine in ENGINES:
    figures = [f"{name} {median_ms(engine, pool):.0f} ms" for name, pool in POOLS.items()]
    print(engine, *figures, sep=", ")
