"""What all tests share. The `engine` of a test is every engine in turn, or those that its mark names."""

import asyncio
import os
import secrets

import pytest

from airlock.errors import AirlockError
from airlock.model import Limits, Owner, SandboxSpec, new_id
from airlock.settings import MIB, Settings
from contract.places import BubblewrapPlace, DockerPlace

PLACES = {
    "bubblewrap": (BubblewrapPlace, {}),
    "docker": (DockerPlace, {}),
    "gvisor": (DockerPlace, {"docker_runtime": "runsc"}),
}


def pytest_configure(config):
    for name in [name for name in os.environ if name.startswith("AIRLOCK_") and "_TEST_" not in name]:
        del os.environ[name]  # what is tested is not to depend on the caller's settings
    config.addinivalue_line("markers", "engines(*names): the engines that a test runs on")


def pytest_generate_tests(metafunc):
    if "engine_name" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("engines")
        names = marker.args if marker else ("bubblewrap", "docker")
        metafunc.parametrize("engine_name", names, scope="session")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def place(engine_name, tmp_path_factory):
    kind, settings = PLACES[engine_name]
    instance = f"test-{secrets.token_hex(4)}-{engine_name}"
    place = kind(Settings(instance=instance, data_dir=tmp_path_factory.mktemp(engine_name), **settings))
    try:
        asyncio.run(_prove(place))
    except AirlockError as error:
        reason = f"LEFT OUT: {engine_name} can't be used here: {error}"
        if os.environ.get("AIRLOCK_TEST_REQUIRE_ENGINES") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    yield place
    place.clean()


async def _prove(place):
    """That a runtime is registered does not say that it works: make one sandbox and destroy it."""
    engine = place.engine()
    try:
        await engine.check()
        spec = SandboxSpec(new_id("sb"), Owner("test"), Limits(1, 64 * MIB, 16, MIB, MIB))
        await engine.create(spec)
        await engine.destroy(spec.id)
    finally:
        await engine.aclose()


@pytest.fixture
async def engine(place):
    """An engine on which a test leaves nothing."""
    engine = place.engine()
    await engine.check()
    yield engine
    left = await engine.list()
    await asyncio.gather(*(engine.destroy(info.id) for info in left))
    await engine.aclose()
    assert left == []
