"""Limits on the kernel's own control groups. Those of v2 are tried with whatever controller it has here."""

import os
import secrets
import subprocess
from pathlib import Path

import pytest

from airlock.engines.bubblewrap import cgroups
from airlock.engines.bubblewrap.cgroups import Place, limit_files
from airlock.engines.bubblewrap.hierarchy import CONTROLLERS, LEAF, Home, parse_mounts
from airlock.model import Limits

LIMITS = Limits(cpus=1.5, memory_bytes=1 << 29, pids=256, tmp_bytes=0, output_bytes=0)


def proc(name):
    return Path("/proc/self", name).read_text()


def unified():
    """Where v2 is mounted, if it is and we may make groups in it."""
    points = [Path(mount.point) for mount in parse_mounts(proc("mountinfo")) if mount.version == 2]
    return next((point for point in points if os.access(point, os.W_OK)), None)


needs_v2 = pytest.mark.skipif(unified() is None, reason="cgroup v2 is not mounted, or not ours to write")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make control groups anywhere")


def test_limits_of_v1():
    assert [file for name in CONTROLLERS for file in limit_files(1, name, LIMITS)] == [
        ("memory.limit_in_bytes", "536870912"),
        ("memory.memsw.limit_in_bytes", "536870912"),
        ("cpu.cfs_period_us", "100000"),
        ("cpu.cfs_quota_us", "150000"),
        ("pids.max", "256"),
    ]


def test_limits_of_v2():
    assert [file for name in CONTROLLERS for file in limit_files(2, name, LIMITS)] == [
        ("memory.max", "536870912"),
        ("memory.swap.max", "0"),
        ("cpu.max", "150000 100000"),
        ("pids.max", "256"),
    ]


def test_the_kernel_takes_no_smaller_share_of_a_processor():
    tiny = Limits(cpus=0.001, memory_bytes=1, pids=1, tmp_bytes=0, output_bytes=0)
    assert limit_files(2, "cpu", tiny) == [("cpu.max", "1000 100000")]


def test_without_cgroups_every_controller_is_missing():
    groups = cgroups.prepare("test", "", "")
    assert groups.places == {}
    assert set(groups.missing) == set(CONTROLLERS)
    assert groups.paths("sb_1") == []
    assert groups.bind("sb_1") is None


@needs_root
def test_a_group_that_can_not_be_made_is_told():
    mounts = "35 31 0:32 / /proc/sys rw - cgroup cgroup rw,memory\n"
    assert cgroups.prepare("test", mounts, "4:memory:/\n").missing["memory"].startswith("cgroup v1: ")


@pytest.fixture
def groups():
    instance = f"test-{secrets.token_hex(4)}"
    groups = cgroups.prepare(instance, proc("mountinfo"), proc("cgroup"))
    yield groups
    groups.close()
    assert not [place for place in groups.places.values() if place.directory.exists()]


@pytest.fixture
def sleeper():
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


@needs_root
def test_a_process_is_limited_and_the_group_goes_with_what_is_in_it(groups, sleeper):
    assert groups.missing == {}
    groups.make("sb_1", LIMITS)
    paths = groups.paths("sb_1")
    cgroups.join(paths, sleeper.pid)
    for path in paths:
        assert Path(path, "cgroup.procs").read_text().split() == [str(sleeper.pid)]
    assert Path(groups.places["pids"].directory, "sb_1", "pids.max").read_text() == "256\n"
    assert cgroups.oom_kills(paths) == 0
    source, seen_at = groups.bind("sb_1")
    assert source in paths
    assert seen_at.startswith("/sys/fs/cgroup")
    cgroups.remove(paths)
    assert not any(Path(path).exists() for path in paths)
    assert sleeper.wait(10) == -9
    cgroups.remove(paths)


@needs_root
def test_groups_that_another_engine_took_away_are_made_again(groups):
    groups.close()
    groups.make("sb_1", LIMITS)
    cgroups.remove(groups.paths("sb_1"))


@pytest.fixture
def v2_controller():
    """A controller that v2 has here. On a machine in hybrid mode it may be none of those that we use."""
    control = unified() / "cgroup.subtree_control"
    given = control.read_text().split()
    has = (unified() / "cgroup.controllers").read_text().split()
    controller = next(name for name in (*CONTROLLERS, *has) if name in has)
    control.write_text(f"+{controller}")
    yield controller
    if controller not in given:
        control.write_text(f"-{controller}")


@pytest.fixture
def v2_home(v2_controller, sleeper):
    """A v2 group with a process in it, as a container's own group is."""
    directory = unified() / f"airlock-test-{secrets.token_hex(4)}"
    directory.mkdir()
    (directory / "cgroup.procs").write_text(str(sleeper.pid))
    yield directory
    groups = [path for path in directory.rglob("*") if path.is_dir()]
    cgroups.remove([*(str(path) for path in sorted(groups, reverse=True)), str(directory)])


@needs_root
@needs_v2
def test_v2_makes_way_in_a_group_that_is_ours(v2_home, v2_controller, sleeper):
    place = Place(Home(2, v2_home, is_namespace_root=True), v2_home / "airlock" / "test")
    place.directory.mkdir(parents=True)
    cgroups._hand_down(v2_controller, place)
    cgroups._hand_down(v2_controller, place)
    assert (v2_home / LEAF / "cgroup.procs").read_text().split() == [str(sleeper.pid)]
    assert v2_controller in (place.directory / "cgroup.subtree_control").read_text().split()
    assert v2_controller in (place.directory / "cgroup.controllers").read_text().split()


@needs_root
@needs_v2
def test_v2_leaves_a_group_alone_that_is_not_ours(v2_home, v2_controller, sleeper):
    place = Place(Home(2, v2_home, is_namespace_root=False), v2_home / "airlock" / "test")
    place.directory.mkdir(parents=True)
    with pytest.raises(OSError, match="Delegate=yes"):
        cgroups._hand_down(v2_controller, place)
    assert (v2_home / "cgroup.procs").read_text().split() == [str(sleeper.pid)]


@needs_root
@needs_v2
def test_v2_knows_a_group_that_systemd_has_delegated(v2_home, v2_controller, sleeper):
    os.setxattr(v2_home, "user.delegate", b"1")
    place = Place(Home(2, v2_home, is_namespace_root=False), v2_home / "airlock" / "test")
    place.directory.mkdir(parents=True)
    cgroups._hand_down(v2_controller, place)
    assert (v2_home / LEAF / "cgroup.procs").read_text().split() == [str(sleeper.pid)]


@needs_root
@needs_v2
def test_v2_tells_of_a_controller_that_it_was_not_given(v2_home):
    place = Place(Home(2, v2_home, is_namespace_root=True), v2_home / "airlock")
    with pytest.raises(OSError, match="not given"):
        cgroups._hand_down("no-such-controller", place)
