import pytest

from airlock.engines.bubblewrap.host import open_host
from airlock.errors import EngineMisconfigured


@pytest.fixture
def programs(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))

    def add(name, script):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)

    return add


@pytest.mark.usefixtures("programs")
def test_without_bwrap_the_package_is_named():
    with pytest.raises(EngineMisconfigured, match="apt-get install bubblewrap"):
        open_host(10001, {})


@pytest.mark.parametrize("says", ["bubblewrap 0.4.1", "bubblewrap", "nonsense"])
def test_a_bwrap_that_is_too_old_is_refused(programs, says):
    programs("bwrap", f"echo {says}")
    with pytest.raises(EngineMisconfigured, match=r"0\.7 or newer"):
        open_host(10001, {})
