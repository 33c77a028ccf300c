import os
import stat

import pytest

from airlock.engines.bubblewrap.runtime import GENERATED, Link, collect, digest, make_public, write


@pytest.fixture
def agent(tmp_path):
    package = tmp_path / "agent"
    (package / "boot").mkdir(parents=True)
    (package / "__init__.py").write_text("PROTOCOL = 1\n")
    (package / "boot/sitecustomize.py").write_text("import airlock_agent\n")
    (package / "__pycache__").mkdir()
    (package / "__pycache__/stale.pyc").touch()
    return package


@pytest.fixture
def etc(tmp_path):
    folder = tmp_path / "etc"
    for directory in ("alternatives", "ssl/certs", "ssl/private", "python3.11"):
        (folder / directory).mkdir(parents=True)
    (folder / "passwd").write_text("host:x:0:0::/:/bin/sh\n")
    (folder / "shadow").write_text("host:secret\n")
    (folder / "ld.so.cache").write_bytes(b"cache")
    (folder / "alternatives/awk").symlink_to("/usr/bin/mawk")
    (folder / "ssl/certs/ca.crt").write_text("certificate")
    (folder / "ssl/certs/own.key").write_text("secret")
    (folder / "ssl/certs/own.key").chmod(0o600)
    (folder / "python3.11/sitecustomize.py").touch()
    os.mkfifo(folder / "python3.11/fifo", 0o644)
    return folder


@pytest.fixture
def files(agent, etc):
    return collect(agent, etc)


def test_what_a_sandbox_gets(files):
    assert files == {
        **GENERATED,
        "etc/alternatives/awk": Link("/usr/bin/mawk"),
        "etc/ld.so.cache": b"cache",
        "etc/ssl/certs/ca.crt": b"certificate",
        "etc/python3.11/sitecustomize.py": b"",
        "airlock_agent/__init__.py": b"PROTOCOL = 1\n",
        "airlock_agent/boot/sitecustomize.py": b"import airlock_agent\n",
    }


def test_any_change_is_another_name(files):
    name = digest(files, "python 1")
    assert digest(dict(reversed(files.items())), "python 1") == name
    changed = [
        {**files, "etc/ld.so.cache": b"other"},
        {**files, "etc/ld.so.cache": Link("cache")},
        {**files, "etc/more": b""},
    ]
    assert len({name, digest(files, "python 2"), *(digest(each, "python 1") for each in changed)}) == 5


def test_written_it_is_the_same_and_for_everyone_to_read(files, tmp_path):
    directory = tmp_path / "runtime"
    before = os.umask(0o077)
    try:
        write(files, directory)
    finally:
        os.umask(before)
    make_public(directory, os.geteuid())
    assert (directory / "etc/alternatives/awk").readlink().name == "mawk"
    assert (directory / "airlock_agent/__init__.py").read_bytes() == b"PROTOCOL = 1\n"
    modes = {stat.S_IMODE(path.lstat().st_mode) for path in directory.rglob("*") if not path.is_symlink()}
    assert modes == {0o755, 0o644}
