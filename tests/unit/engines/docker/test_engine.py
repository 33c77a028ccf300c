import asyncio
from datetime import UTC, datetime

import pytest

from airlock.engines.docker.engine import DockerEngine
from airlock.engines.docker.labels import container_labels
from airlock.errors import (
    Conflict,
    EngineError,
    EngineMisconfigured,
    EngineUnavailable,
    SandboxFailed,
    SandboxNotFound,
)
from airlock.model import Limits, Owner, SandboxSpec, SandboxState
from airlock.settings import MIB, Settings

pytestmark = pytest.mark.anyio

SPEC = SandboxSpec("sb_1", Owner("acme"), Limits(1, 64 * MIB, 16, MIB, MIB))
CREATE = "POST /v1.41/containers/create"
START = "POST /v1.41/containers/blue-sb_1/start"
INSPECT = "GET /v1.41/containers/blue-sb_1/json"
REMOVE = "DELETE /v1.41/containers/blue-sb_1"
WAIT = "POST /v1.41/containers/blue-sb_1/wait"
ATTACH = "POST /v1.41/containers/blue-sb_1/attach"
LIST = "GET /v1.41/containers/json"
INFO = "GET /v1.41/info"
IMAGE = "GET /v1.41/images/sandbox:1/json"

CREATED = (201, {"Id": "c0ffee"})
STARTED = (204, b"")
BROKEN = (500, {"message": "broken"})
BUSY = (503, {"message": "busy"})
RUNNING = (
    200,
    {
        "Config": {"Labels": container_labels(SPEC, "blue", datetime.now(UTC))},
        "State": {"Status": "running", "OOMKilled": False},
    },
)
HOST = {"ServerVersion": "20.10.24", "Runtimes": {"runc": {}}, "DefaultRuntime": "runc", "PidsLimit": True}


@pytest.fixture
def settings(tmp_path):
    return Settings(
        instance="blue", docker_image="sandbox:1", docker_host=f"unix://{tmp_path / 'docker.sock'}"
    )


@pytest.fixture
async def engine(settings):
    engine = DockerEngine(settings)
    yield engine
    await engine.aclose()


@pytest.fixture
def willing(daemon):
    """A daemon that makes and removes what it is asked to."""
    daemon.answers |= {CREATE: [CREATED], START: [STARTED], REMOVE: [STARTED]}
    return daemon


def ours(daemon):
    return [call for call in daemon.calls if call != "GET /version"]


async def test_create_takes_two_calls(willing, engine):
    info = await engine.create(SPEC)
    assert (info.id, info.state, info.owner) == ("sb_1", SandboxState.RUNNING, SPEC.owner)
    assert ours(willing) == [CREATE, START]


async def test_an_absent_daemon_is_an_error_for_now_and_recovers_by_itself(daemon, engine):
    daemon.answers[LIST] = [(200, [])]
    await daemon.stop()
    for call in (engine.list(), engine.create(SPEC), engine.connect("sb_1"), engine.check()):
        with pytest.raises(EngineUnavailable) as absence:
            await call
        assert absence.value.retry_after == 1
    await daemon.start()
    assert await engine.list() == []
    await daemon.stop()
    with pytest.raises(EngineUnavailable):
        await engine.list()
    await daemon.start()
    assert await engine.list() == []


async def test_a_daemon_that_is_back_before_the_last_try_is_not_missed(daemon, engine):
    daemon.answers[LIST] = [None, None, (200, [])]
    assert await engine.list() == []
    assert ours(daemon) == [LIST] * 3


async def test_another_version_may_come_back(daemon, engine):
    daemon.answers[LIST] = [(200, [])]
    assert await engine.list() == []
    daemon.answers[LIST] = [None]
    daemon.answers["GET /version"] = [(200, {"ApiVersion": "1.52", "MinAPIVersion": "1.44"})]
    daemon.answers["GET /v1.44/containers/json"] = [(200, [])]
    assert await engine.list() == []


async def test_a_daemon_that_is_too_old_is_refused(daemon, engine):
    daemon.answers["GET /version"] = [(200, {"ApiVersion": "1.40"})]
    with pytest.raises(EngineMisconfigured, match=r"1\.40.*1\.41"):
        await engine.list()


async def test_a_passing_failure_is_tried_again(willing, engine):
    willing.answers |= {CREATE: [BUSY, BUSY, CREATED], START: [BUSY, STARTED]}
    await engine.create(SPEC)
    assert ours(willing) == [CREATE, CREATE, CREATE, START, START]


async def test_a_failure_that_is_final_is_not(willing, engine):
    willing.answers[START] = [BROKEN, STARTED]
    with pytest.raises(SandboxFailed, match="broken"):
        await engine.create(SPEC)
    assert ours(willing) == [CREATE, START, REMOVE]


async def test_a_create_whose_answer_was_lost_went_through(willing, engine, monkeypatch):
    made = {}

    # The second try meets the container of the first, which has the labels that the first sent.
    def remembered(spec, instance, created_at, original=container_labels):
        made["Labels"] = original(spec, instance, created_at)
        return made["Labels"]

    monkeypatch.setattr("airlock.engines.docker.spec.container_labels", remembered)
    willing.answers[CREATE] = [None, (409, {"message": "the name is in use"})]
    willing.answers[INSPECT] = [(200, {"Config": made, "State": {}})]
    await engine.create(SPEC)
    assert ours(willing) == [CREATE, CREATE, INSPECT, START]


async def test_another_container_of_the_name_is_left_alone(willing, engine):
    willing.answers |= {CREATE: [(409, {"message": "the name is in use"})], INSPECT: [RUNNING]}
    with pytest.raises(Conflict):
        await engine.create(SPEC)
    assert REMOVE not in willing.calls


async def test_a_missing_image_says_what_to_do(daemon, engine):
    daemon.answers[CREATE] = [(404, {"message": "No such image: sandbox:1"})]
    with pytest.raises(EngineMisconfigured, match=r"sandbox:1.*`make image`"):
        await engine.create(SPEC)


async def test_an_unknown_runtime_says_what_to_do(daemon, settings):
    daemon.answers |= {CREATE: [(400, {"message": "Unknown runtime specified kata"})], INFO: [(200, HOST)]}
    engine = DockerEngine(settings.model_copy(update={"docker_runtime": "kata"}))
    with pytest.raises(EngineMisconfigured, match="'kata'"):
        await engine.create(SPEC)
    await engine.aclose()


@pytest.mark.parametrize("refusal", [BROKEN, (400, {"message": "no"}), (404, {}), (409, {"message": "no"})])
async def test_what_does_not_start_is_removed(willing, engine, refusal):
    willing.answers[START] = [refusal]
    with pytest.raises(SandboxFailed):
        await engine.create(SPEC)
    assert ours(willing)[-1] == REMOVE


async def test_a_create_of_which_nothing_is_known_is_removed(willing, engine):
    willing.answers[CREATE] = [None]
    with pytest.raises(EngineUnavailable):
        await engine.create(SPEC)
    assert ours(willing)[-1] == REMOVE


@pytest.mark.parametrize("held", [CREATE, START])
async def test_a_cancelled_create_is_undone_after_the_call_that_no_one_can_stop(willing, engine, held):
    gate = asyncio.Event()
    willing.answers[held].insert(0, gate)
    creating = asyncio.create_task(engine.create(SPEC))
    await willing.until(held)
    creating.cancel()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await creating
    assert ours(willing) == [CREATE, START, REMOVE]


async def test_a_create_cancelled_twice_is_still_undone(willing, engine):
    gate = asyncio.Event()
    willing.answers[CREATE].insert(0, gate)
    creating = asyncio.create_task(engine.create(SPEC))
    await willing.until(CREATE)
    while not creating.done():
        creating.cancel()
        await asyncio.sleep(0)
    assert REMOVE not in willing.calls
    gate.set()
    await engine.aclose()
    assert ours(willing) == [CREATE, START, REMOVE]


async def test_get_tells_the_state(daemon, engine):
    labels = RUNNING[1]["Config"]["Labels"]
    state = {"Status": "exited", "OOMKilled": True}
    daemon.answers[INSPECT] = [RUNNING, (200, {"Config": {"Labels": labels}, "State": state})]
    assert (await engine.get("sb_1")).state is SandboxState.RUNNING
    ended = await engine.get("sb_1")
    assert (ended.state, ended.oom_killed) == (SandboxState.EXITED, True)


@pytest.mark.parametrize("sandbox_id", ["sb_2", "", "../images", "a/b", "A", "x-sb_1", "sb\n", "sb_\u0661"])
async def test_what_is_not_there_is_not_found(daemon, engine, sandbox_id):
    with pytest.raises(SandboxNotFound):
        await engine.get(sandbox_id)
    with pytest.raises(SandboxNotFound):
        await engine.connect(sandbox_id)
    await engine.destroy(sandbox_id)
    assert {call.split("/")[3] for call in ours(daemon)} <= {"blue-sb_2"}


async def test_destroy_waits_for_a_removal_under_way(daemon, engine):
    daemon.answers |= {REMOVE: [(409, {"message": "already in progress"})], WAIT: [(200, {"StatusCode": 0})]}
    await engine.destroy("sb_1")
    daemon.answers |= {WAIT: [(404, {"message": "no such container"})]}
    await engine.destroy("sb_1")
    assert ours(daemon) == [REMOVE, WAIT, REMOVE, WAIT]


async def test_connecting_to_what_has_ended_does_not_wait_for_it(daemon, engine):
    ended = {**RUNNING[1], "State": {"Status": "exited", "OOMKilled": False}}
    daemon.answers |= {ATTACH: [(101, b"")], INSPECT: [(200, ended)]}
    with pytest.raises(SandboxFailed, match="has ended"):
        await engine.connect("sb_1")


async def test_check_reports_what_the_host_says(daemon, engine):
    daemon.answers |= {INFO: [(200, HOST)], IMAGE: [(200, {})]}
    report = await engine.check()
    assert (report.engine, report.version) == ("docker", "20.10.24")
    assert report.isolation["pids"].enforced
    assert not report.isolation["memory"].enforced
    daemon.answers[IMAGE] = [(404, {"message": "No such image"})]
    with pytest.raises(EngineMisconfigured, match="make image"):
        await engine.check()


@pytest.mark.parametrize("answer", [(200, b"<html>"), (200, b""), (418, b"teapot"), (400, {"error": 1})])
async def test_an_answer_that_makes_no_sense_is_our_error(daemon, engine, answer):
    daemon.answers[LIST] = [answer]
    with pytest.raises(EngineError):
        await engine.list()
