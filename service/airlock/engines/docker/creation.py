"""How a container is made and started, in two calls, and what it means if that fails."""

from datetime import UTC, datetime
from typing import Any

from airlock.engines.docker import labels
from airlock.engines.docker.daemon import Daemon
from airlock.engines.docker.report import know_runtime
from airlock.engines.docker.spec import container_name, create_body
from airlock.errors import (
    Conflict,
    EngineError,
    EngineMisconfigured,
    EngineUnavailable,
    NotFound,
    SandboxFailed,
)
from airlock.model import SandboxInfo, SandboxSpec, SandboxState
from airlock.settings import Settings


async def make(daemon: Daemon, settings: Settings, seccomp: str, spec: SandboxSpec) -> SandboxInfo:
    """Raises Conflict if another container has the name. After any other error there may be one of ours."""
    name = container_name(settings.instance, spec.id)
    created_at = datetime.now(UTC)
    try:
        await _create(daemon, name, create_body(spec, settings, seccomp, created_at))
        await _start(daemon, name)
    except EngineError as error:
        if type(error) is not EngineError:
            raise
        raise SandboxFailed(f"the sandbox could not be made: {error.message}") from error
    return SandboxInfo(spec.id, SandboxState.RUNNING, spec.owner, created_at, spec.workspace, spec.expires_at)


def image_missing(image: str) -> EngineMisconfigured:
    return EngineMisconfigured(
        f"the Docker host has no image {image}: build it with `make image`, "
        "or name another in AIRLOCK_DOCKER_IMAGE"
    )


async def _create(daemon: Daemon, name: str, body: dict[str, Any]) -> None:
    try:
        await daemon.call(
            lambda api: api.create_container_from_config(body, name)  # type: ignore[no-untyped-call]
        )
    except NotFound as error:
        raise image_missing(body["Image"]) from error
    except Conflict:
        # A try whose answer was lost may have made it. If not, it is another's: hands off.
        if not await _is_made(daemon, name, body):
            raise
    except EngineUnavailable:
        raise
    except EngineError:
        know_runtime(await daemon.call(lambda api: api.info()), body["HostConfig"].get("Runtime"))
        raise


async def _is_made(daemon: Daemon, name: str, body: dict[str, Any]) -> bool:
    try:
        container = await daemon.call(lambda api: api.inspect_container(name))
    except NotFound:
        return False
    made: bool = container["Config"]["Labels"].get(labels.CREATED) == body["Labels"][labels.CREATED]
    return made


async def _start(daemon: Daemon, name: str) -> None:
    try:
        await daemon.call(lambda api: api.start(name))
    except (NotFound, Conflict) as error:
        raise SandboxFailed("the sandbox was removed while it was being made") from error
