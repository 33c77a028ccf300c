"""The service in a container of its own, driving the engine that runs it, as compose.yaml sets it up."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

import docker
import httpx
import pytest
import tenacity
from docker.errors import DockerException
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import HttpWaitStrategy

ROOT = Path(__file__).parents[2]
IMAGES = ("airlock-service:latest", "airlock-sandbox:latest")
SOCKET = "/var/run/docker.sock"
KEY = "e2e-key-that-is-long-enough"


def leave_out(reason: str) -> NoReturn:
    if os.environ.get("AIRLOCK_TEST_REQUIRE_ENGINES") == "1":
        pytest.fail(reason)
    pytest.skip(f"NOT TESTED: {reason}")


@pytest.fixture(scope="module")
def engine() -> Iterator[docker.DockerClient]:
    try:
        client = docker.from_env()
    except DockerException as error:
        leave_out(f"no Docker daemon answers: {error}")
    try:
        missing = [image for image in IMAGES if not client.images.list(image)]
        if missing:
            leave_out(f"{missing} not built: run `make image`")
        yield client
    finally:
        client.close()


@pytest.fixture(scope="module")
def socket() -> Path:
    """The daemon's socket, as the daemon itself finds it when it is asked for a bind mount."""
    host = os.environ.get("DOCKER_HOST", "")
    return Path(host.removeprefix("unix://") if host.startswith("unix://") else SOCKET)


@pytest.fixture
def instance(engine: docker.DockerClient) -> Iterator[str]:
    """A name of our own for what is made on the engine; when the service has stopped, no sandbox is left."""
    name = f"e2e-{uuid4().hex[:8]}"
    label = {"label": f"airlock.instance={name}"}
    yield name
    left = engine.containers.list(all=True, filters=label)
    for container in left:
        container.remove(force=True)
    for volume in engine.volumes.list(filters=label):
        volume.remove(force=True)
    assert not left


@pytest.fixture
def url(engine: docker.DockerClient, socket: Path, instance: str) -> Iterator[str]:
    """Where a service in a container answers, locked as in compose.yaml."""
    testcontainers_config.ryuk_disabled = True  # its image would have to be pulled
    container = (
        DockerContainer(IMAGES[0])
        .with_envs(AIRLOCK_API_KEYS=f"{KEY}:acme", AIRLOCK_ENGINE="docker", AIRLOCK_INSTANCE=instance)
        .with_volume_mapping(str(socket), SOCKET, "rw")
        .with_tmpfs_mount("/tmp")
        .with_exposed_ports(8080)
        .with_kwargs(
            group_add=[str(socket.stat().st_gid)],
            read_only=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
        )
        .waiting_for(HttpWaitStrategy(8080, "/readyz").for_status_code(200).with_startup_timeout(60))
    )
    with container:
        yield f"http://{container.get_container_host_ip()}:{container.get_exposed_port(8080)}"
        container.get_wrapped_container().stop(timeout=30)


def run_code(url: str, code: str, **fields: Any) -> dict[str, Any]:
    body = {"language": "python", "code": code, **fields}
    headers = {"Authorization": f"Bearer {KEY}"}
    response = httpx.post(f"{url}/v1/run_code", json=body, headers=headers, timeout=60, trust_env=False)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def test_runs_code_and_keeps_a_workspace(url: str) -> None:
    answer = run_code(url, "import os; print(6 * 7, os.getuid(), os.listdir())")
    assert (answer["status"], answer["exit_code"], answer["engine"]) == ("exited", 0, "docker")
    assert answer["stdout"] == "42 1000 ['main.py']\n"

    run_code(url, "open('note.txt', 'w').write('still here')", workspace="notes")
    assert run_code(url, "print(open('note.txt').read())", workspace="notes")["stdout"] == "still here\n"
    assert run_code(url, "open('note.txt')")["exit_code"] == 1


def test_answers_nobody_without_a_key(url: str) -> None:
    body = {"language": "python", "code": "print(1)"}
    response = httpx.post(f"{url}/v1/run_code", json=body, trust_env=False)
    assert response.status_code == 401
    assert response.json()["error"]["code"] == "UNAUTHORIZED"


def test_is_not_root(engine: docker.DockerClient) -> None:
    status, output = run_to_the_end(engine, ["-c", "id -u"], entrypoint="/bin/sh")
    assert status == 0
    assert int(output) != 0


def test_does_not_start_without_a_key(engine: docker.DockerClient) -> None:
    status, output = run_to_the_end(engine)
    assert status != 0
    assert b"without an API key" in output


def run_to_the_end(engine: docker.DockerClient, *command: list[str], **options: str) -> tuple[int, bytes]:
    container = engine.containers.run(IMAGES[0], *command, detach=True, **options)
    try:
        return container.wait(timeout=60)["StatusCode"], container.logs()
    finally:
        container.remove(force=True, v=True)


Compose = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def compose(engine: docker.DockerClient, socket: Path, instance: str) -> Compose:
    """Calls Compose, version 1 or 2, in a project of our own; keywords are environment variables."""
    if shutil.which("docker-compose"):
        program = ["docker-compose"]
    elif subprocess.run(["docker", "compose", "version"], check=False).returncode == 0:
        program = ["docker", "compose"]
    else:
        leave_out("Docker Compose is not installed")
    environment = {
        **os.environ,
        "AIRLOCK_INSTANCE": instance,
        "AIRLOCK_PORT": "0",
        "DOCKER_SOCKET": str(socket),
        "DOCKER_GID": str(socket.stat().st_gid),
    }

    def call(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command = [*program, "--file", str(ROOT / "compose.yaml"), "--project-name", instance, *arguments]
        return subprocess.run(
            command, env=environment | variables, capture_output=True, text=True, check=False
        )

    return call


def test_compose_refuses_to_start_without_a_key(compose: Compose) -> None:
    config = compose("config", AIRLOCK_API_KEYS="")
    assert config.returncode != 0
    assert "long random key" in config.stderr


def test_compose_serves(compose: Compose) -> None:
    try:
        up = compose("up", "--detach", "--no-build", AIRLOCK_API_KEYS=f"{KEY}:acme")
        assert up.returncode == 0, up.stderr
        url = f"http://{compose('port', 'airlock', '8080', AIRLOCK_API_KEYS=KEY).stdout.strip()}"
        for attempt in tenacity.Retrying(stop=tenacity.stop_after_delay(60), wait=tenacity.wait_fixed(0.1)):
            with attempt:
                httpx.get(f"{url}/readyz", trust_env=False).raise_for_status()
        assert run_code(url, "print('composed')", workspace="notes")["stdout"] == "composed\n"
    finally:
        down = compose("down", "--volumes", "--timeout", "30", AIRLOCK_API_KEYS=KEY)
        assert down.returncode == 0, down.stderr
