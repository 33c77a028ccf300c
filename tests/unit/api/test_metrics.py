import asyncio

import httpx
import pytest

from unit.api.serving import CODE, STARTED, ScriptedRuns

pytestmark = pytest.mark.anyio


async def test_a_run_that_nobody_waited_for_is_counted(tcp_client: httpx.AsyncClient, runs: ScriptedRuns):
    runs.script = (STARTED, asyncio.Event())
    call = asyncio.create_task(tcp_client.post("/v1/run_code", json=CODE))
    await runs.begun.wait()
    call.cancel()
    await runs.cut_off.wait()
    text = (await tcp_client.get("/metrics")).text
    assert 'airlock_runs_total{language="python",status="cancelled",tool="run_code"} 1.0' in text
    assert 'airlock_http_requests_total{method="POST",route="/v1/run_code",status="499"} 1.0' in text
