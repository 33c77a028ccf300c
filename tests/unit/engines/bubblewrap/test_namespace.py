import os
import subprocess
from pathlib import Path

import pytest

from airlock.engines.bubblewrap.namespace import private_namespace

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a mount namespace")


def test_directories_are_seen_by_those_who_can_not_get_there(tmp_path):
    secret = tmp_path / "locked" / "inner"
    secret.mkdir(parents=True)
    (tmp_path / "locked").chmod(0o700)
    (secret / "file").write_text("seen")
    before = Path("/proc/self/mountinfo").read_text()
    own = Path("/proc/self/ns/mnt").readlink()
    namespace = private_namespace({"things": secret})
    try:
        enter = [
            "nsenter",
            f"--mount=/proc/{os.getpid()}/fd/{namespace}",
            "--setuid",
            "10001",
            "--setgid",
            "10001",
        ]
        command = [*enter, "--", "cat", "/mnt/things/file"]
        assert subprocess.run(command, capture_output=True, check=True).stdout == b"seen"
    finally:
        os.close(namespace)
    assert Path("/proc/self/mountinfo").read_text() == before
    assert Path("/proc/self/ns/mnt").readlink() == own


def test_a_directory_that_is_not_there(tmp_path):
    before = sorted(os.listdir("/proc/self/fd"))
    with pytest.raises(FileNotFoundError):
        private_namespace({"one": tmp_path, "two": tmp_path / "none"})
    assert sorted(os.listdir("/proc/self/fd")) == before
