"""What the engine does where there is nothing to run sandboxes with. With bwrap, tests/contract has it all."""

import pytest

from airlock.engines.bubblewrap.engine import BubblewrapEngine
from airlock.errors import EngineMisconfigured, SandboxNotFound
from airlock.model import Limits, Owner, SandboxSpec
from airlock.settings import Settings

pytestmark = pytest.mark.anyio


@pytest.fixture
async def engine(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    engine = BubblewrapEngine(Settings(data_dir=tmp_path / "data"))
    yield engine
    await engine.aclose()


async def test_without_bwrap_it_says_what_to_install_as_often_as_it_is_asked(engine):
    for _ in range(2):
        with pytest.raises(EngineMisconfigured, match="apt-get install bubblewrap"):
            await engine.check()
    with pytest.raises(EngineMisconfigured):
        await engine.create(SandboxSpec("sb_1", Owner("acme"), Limits(1, 1, 1, 1, 1)))


async def test_what_was_never_made_can_be_asked_for(engine):
    assert await engine.list() == []
    await engine.destroy("sb_1")
    for question in (engine.get, engine.connect):
        with pytest.raises(SandboxNotFound):
            await question("sb_1")


async def test_a_data_directory_that_can_not_be_had_is_told(tmp_path):
    (tmp_path / "data").touch()
    engine = BubblewrapEngine(Settings(data_dir=tmp_path / "data"))
    with pytest.raises(EngineMisconfigured, match="File exists"):
        await engine.check()
    await engine.aclose()
