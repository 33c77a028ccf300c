import os
from pathlib import Path

import pytest

from airlock.engines.bubblewrap.root import given_root, host_root, python_identity

AGENT = ("/run/airlock_agent", "/opt/airlock/airlock_agent")


def test_of_the_host_only_programs_and_libraries_are_taken():
    root = host_root("/run")
    assert ("/usr", "/usr") in root.binds
    assert root.binds[-2:] == (("/run/etc", "/etc"), AGENT)
    taken = {destination for _, destination in root.binds} | {link for _, link in root.links}
    assert taken <= {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", AGENT[1]}


@pytest.fixture
def rootfs(tmp_path):
    for directory in ("usr/bin", "etc", "opt/tool", "opt/airlock", "var", "proc", "dev", "tmp", "root"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "bin").symlink_to("usr/bin")
    (tmp_path / ".dockerenv").touch()
    (tmp_path / "etc/passwd").touch()
    return tmp_path


def test_of_a_given_root_all_is_taken_but_what_the_sandbox_has_of_its_own(rootfs):
    root = given_root(rootfs, "/mnt/rootfs", "/run")
    assert root.links == (("usr/bin", "/bin"),)
    assert root.binds == (
        ("/mnt/rootfs/etc", "/etc"),
        ("/mnt/rootfs/root", "/root"),
        ("/mnt/rootfs/usr", "/usr"),
        ("/mnt/rootfs/var", "/var"),
        ("/mnt/rootfs/opt/tool", "/opt/tool"),
        ("/run/etc/passwd", "/etc/passwd"),
        AGENT,
    )


def test_another_python_is_another_identity(rootfs):
    assert python_identity(rootfs) == ""
    python = rootfs / "usr/bin/python3"
    python.write_text("one")
    first = python_identity(rootfs)
    os.utime(python, (1, 1))
    assert python_identity(rootfs) != first
    local = rootfs / "usr/local/bin/python3"
    local.parent.mkdir(parents=True)
    local.touch()
    assert python_identity(rootfs).startswith(str(local))


def test_the_host_has_a_python():
    assert python_identity(Path("/"))
