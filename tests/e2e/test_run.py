"""run_code and run_command over HTTP, as a caller sees them, on each engine."""

import asyncio
import json
from collections.abc import Iterator

import httpx
import pytest

from e2e.conftest import Service, eventually, serving

WAIT_FOR_GO = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n"


def events(response: httpx.Response) -> Iterator[tuple[str, dict]]:
    name = ""
    for line in response.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        if line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def test_run_code_answers_what_the_contract_says(service: Service, client):
    answer = client.post("/v1/run_code", json={"language": "python", "code": "print(1)"}).json()
    assert answer.pop("duration_ms") > 0
    usage = answer.pop("usage")
    assert usage["cpu_ms"] > 0
    assert usage["peak_memory_bytes"] > 1_000_000
    assert answer.pop("run_id").startswith("run_")
    assert answer.pop("sandbox").startswith("sb_")
    assert answer == {
        "status": "exited",
        "exit_code": 0,
        "signal": None,
        "stdout": "1\n",
        "stderr": "",
        "truncated": False,
        "output_bytes": {"stdout": 2, "stderr": 0},
        "workspace": None,
        "engine": service.engine,
    }


def test_run_command_takes_a_string_or_an_argv(client):
    text = client.post("/v1/run_command", json={"command": "echo $((1 + 1)) | cat"}).json()
    assert text["stdout"] == "2\n"
    argv = client.post("/v1/run_command", json={"command": ["echo", "$HOME", ";", "ls"]}).json()
    assert argv["stdout"] == "$HOME ; ls\n"


def test_a_run_that_asks_for_everything(client):
    body = {
        "language": "python",
        "code": "import sys, os, helper\nprint(sys.argv[1:], os.environ['K'], sys.stdin.read(), os.getcwd(), helper.X)",
        "args": ["a b", "é"],
        "env": {"K": "v=1"},
        "stdin": "in",
        "timeout": 20,
        "cwd": "sub",
        "files": {"sub/helper.py": "X = 'helped'"},
        "workspace": None,
        "sandbox": None,
        "fresh": True,
        "limits": {"cpus": 0.5, "memory_mb": 128, "pids": 32, "tmp_mb": 16, "output_bytes": 1000},
    }
    answer = client.post("/v1/run_code", json=body).json()
    assert answer["stdout"] == "['a b', 'é'] v=1 in /workspace/sub helped\n", answer


def test_a_stream_shows_output_while_the_program_runs(client):
    body = {"language": "python", "code": f"print('before', flush=True)\n{WAIT_FOR_GO}print('after')"}
    with client.stream(
        "POST", "/v1/run_code", json={**body, "workspace": "live"}, headers={"Accept": "text/event-stream"}
    ) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        stream = events(response)
        assert next(stream)[0] == "started"
        assert next(stream) == ("stdout", {"text": "before\n", "offset": 0})
        # Only now is the program allowed to go on, so what came before was not held back.
        go = client.post("/v1/run_command", json={"command": "touch go", "workspace": "live"})
        assert go.json()["exit_code"] == 0
        assert next(stream) == ("stdout", {"text": "after\n", "offset": 7})
        name, last = next(stream)
        assert (name, last["status"], last["exit_code"]) == ("exited", "exited", 0)
        assert "stdout" not in last
        assert last["output_bytes"] == {"stdout": 13, "stderr": 0}
        assert next(stream, None) is None


def test_an_error_before_the_stream_starts_is_a_plain_error(client):
    response = client.post(
        "/v1/run_code",
        json={"language": "cobol", "code": ""},
        headers={"Accept": "text/event-stream"},
    )
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "INVALID_ARGUMENTS"


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_a_caller_that_disconnects_cancels_its_run(service: Service, client, accept):
    workspace = f"gone-{accept.partition('/')[0]}"
    touch = f"open('alive', 'w')\n{WAIT_FOR_GO}"

    async def call_and_hang_up() -> None:
        async with httpx.AsyncClient(base_url=service.url, headers=client.headers, timeout=60) as caller:
            body = {"language": "python", "code": touch, "workspace": workspace}
            call = asyncio.create_task(caller.post("/v1/run_code", json=body, headers={"Accept": accept}))
            await asyncio.to_thread(eventually, lambda: sees_alive(client, workspace))
            call.cancel()
            await asyncio.wait([call])

    asyncio.run(call_and_hang_up())
    eventually(lambda: sandboxes(client) == 0, seconds=10)


def sees_alive(client: httpx.Client, workspace: str) -> bool:
    body = {"command": ["test", "-e", "alive"], "workspace": workspace}
    return client.post("/v1/run_command", json=body).json()["exit_code"] == 0


def sandboxes(client: httpx.Client) -> int:
    pool = client.get("/readyz").json()["pool"]
    return pool["running"] + pool["ending"]


def test_a_workspace_persists_and_is_its_owners_alone(service: Service, client):
    write = {"command": "echo kept > file", "workspace": "proj"}
    read = {"command": "cat file", "workspace": "proj"}
    assert client.post("/v1/run_command", json=write).json()["status"] == "exited"
    assert client.post("/v1/run_command", json=read).json()["stdout"] == "kept\n"
    for key in ("key-alice", "key-other"):
        with service.client(key) as stranger:
            assert stranger.post("/v1/run_command", json=read).json()["exit_code"] != 0


def test_the_same_idempotency_key_runs_once(client):
    body = {"command": "echo ran >> log; cat log", "workspace": "once"}
    calls = [
        client.post("/v1/run_command", json=body, headers={"Idempotency-Key": "k1"}).json() for _ in range(3)
    ]
    assert calls[0]["stdout"] == "ran\n"
    assert calls == [calls[0]] * 3
    other = client.post("/v1/run_command", json={"command": "ls"}, headers={"Idempotency-Key": "k1"})
    assert (other.status_code, other.json()["error"]["code"]) == (409, "IDEMPOTENCY_CONFLICT")


def test_the_limit_of_a_tenant_answers_429_and_others_go_on(tmp_path):
    body = {"language": "python", "code": WAIT_FOR_GO}
    stream = {"headers": {"Accept": "text/event-stream"}, "json": body}
    with (
        serving("bubblewrap", tmp_path, max_runs_per_tenant="1") as service,
        service.client() as client,
        service.client("key-other") as other,
    ):
        with client.stream("POST", "/v1/run_code", **stream) as response:
            watched = events(response)  # kept: httpx hangs up when it is collected
            assert next(watched)[0] == "started"
            refused = client.post("/v1/run_command", json={"command": "echo hi"})
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "TOO_MANY_RUNS")
            assert int(refused.headers["retry-after"]) >= 1
            assert other.post("/v1/run_command", json={"command": "echo hi"}).json()["stdout"] == "hi\n"
        # The caller has hung up, so its place is free again.
        eventually(lambda: client.post("/v1/run_command", json={"command": "true"}).is_success)


def test_readyz_says_what_is_enforced(service: Service, client):
    ready = client.get("/readyz").json()
    assert ready["engine"]["name"] == service.engine
    for measure in ("memory", "cpu", "pids", "disk", "network"):
        assert ready["isolation"][measure]["how"]
    assert ready["isolation"]["memory"]["enforced"] is True


def test_metrics_count_the_runs(client):
    def count() -> float:
        name = 'airlock_runs_total{language="",status="exited",tool="run_command"}'
        lines = dict(line.rsplit(" ", 1) for line in client.get("/metrics").text.splitlines())
        return float(lines.get(name, 0))

    before = count()
    client.post("/v1/run_command", json={"command": "true"})
    assert count() == before + 1


def test_without_a_key_nothing_runs(service: Service):
    response = httpx.post(f"{service.url}/v1/run_command", json={"command": "true"})
    assert (response.status_code, response.json()["error"]["code"]) == (401, "UNAUTHORIZED")


BAD = {
    "not json": b"{",
    "not an object": b"[]",
    "unknown field": b'{"command": "true", "surprise": 1}',
    "no command": b"{}",
    "empty argv": b'{"command": []}',
    "NUL in command": rb'{"command": "a\u0000b"}',
    "lone surrogate": rb'{"command": "\ud800"}',
    "negative timeout": b'{"command": "true", "timeout": -1}',
    "absurd timeout": b'{"command": "true", "timeout": 1e300}',
    "infinite timeout": b'{"command": "true", "timeout": Infinity}',
    "zero memory": b'{"command": "true", "limits": {"memory_mb": 0}}',
    "absurd memory": b'{"command": "true", "limits": {"memory_mb": 99999999999}}',
    "cwd up": b'{"command": "true", "cwd": "../.."}',
    "cwd absolute": b'{"command": "true", "cwd": "/etc"}',
    "cwd that is not there": b'{"command": "true", "cwd": "nowhere"}',
    "file up": b'{"command": "true", "files": {"../x": ""}}',
    "file absolute": b'{"command": "true", "files": {"/x": ""}}',
    "long path": b'{"command": "true", "files": {"' + b"x" * 256 + b'": ""}}',
    "env name": b'{"command": "true", "env": {"a=b": "c"}}',
    "env NUL": rb'{"command": "true", "env": {"a": "\u0000"}}',
    "workspace name": b'{"command": "true", "workspace": "../x"}',
    "deep nesting": b'{"command":' + b"[" * 100_000,
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD.keys())
def test_bad_input_gets_a_code_and_a_sentence(client, body):
    response = client.post("/v1/run_command", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert error["code"] in {"INVALID_ARGUMENTS", "INVALID_JSON", "PATH_OUTSIDE_WORKSPACE"}
    assert len(error["message"]) > 10
    assert error["request_id"] == response.headers["x-request-id"]


def test_a_body_over_the_limit_is_refused_before_it_is_read(client):
    response = client.post("/v1/run_command", content=b"x" * (11 << 20))
    assert (response.status_code, response.json()["error"]["code"]) == (413, "BODY_TOO_LARGE")
