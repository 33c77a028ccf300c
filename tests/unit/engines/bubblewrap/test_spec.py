import pytest

from airlock.engines.bubblewrap.spec import Descriptors, Root, agent, isolation, mark, rlimits
from airlock.model import Limits
from airlock.settings import MIB

ROOT = Root(binds=(("/usr", "/usr"), ("/mnt/etc", "/etc")), links=(("usr/bin", "/bin"),))
LIMITS = Limits(cpus=1, memory_bytes=512 * MIB, pids=256, tmp_bytes=256 * MIB, output_bytes=MIB)


def options(arguments):
    """Each option with its values, in order."""
    found = []
    for word in arguments:
        if word.startswith("--"):
            found.append((word,))
        else:
            found[-1] += (word,)
    return found


@pytest.fixture
def private():
    return options(isolation(ROOT, 7, 100 * MIB, None))


def test_every_namespace_and_no_privilege(private):
    assert ("--unshare-all",) in private
    assert ("--as-pid-1",) in private
    assert ("--new-session",) in private
    assert ("--uid", "1000") in private
    assert ("--gid", "1000") in private
    assert ("--cap-drop", "ALL") in private
    assert ("--seccomp", "7") in private
    assert not {option[0] for option in private} & {"--share-net", "--cap-add", "--die-with-parent"}


def test_three_places_are_writable_and_have_a_size(private):
    sizes = {
        tmpfs[1]: (perms[1], int(size[1]))
        for perms, size, tmpfs in zip(private, private[1:], private[2:], strict=False)
        if tmpfs[0] == "--tmpfs"
    }
    assert sizes == {
        "/tmp": ("1777", 100 * MIB),
        "/workspace": ("0755", 100 * MIB),
        "/dev/shm": ("1777", 64 * MIB),
    }
    assert [option for option in private if option[0] in ("--bind", "--dev-bind")] == []


def test_shared_memory_is_no_larger_than_the_rest():
    assert ("--size", str(8 * MIB)) in options(isolation(ROOT, 7, 8 * MIB, None))
    assert ("--size", str(64 * MIB)) not in options(isolation(ROOT, 7, 8 * MIB, None))


def test_the_root_is_made_read_only_when_all_is_in_it(private):
    assert private[-3:] == [("--remount-ro", "/dev"), ("--remount-ro", "/"), ("--chdir", "/workspace")]
    assert ("--ro-bind", "/usr", "/usr") in private
    assert ("--ro-bind", "/mnt/etc", "/etc") in private
    assert ("--symlink", "usr/bin", "/bin") in private


def test_a_workspace_is_bound_in_the_place_of_a_tmpfs():
    bound = options(isolation(ROOT, 7, MIB, "/mnt/workspaces/key/files"))
    assert ("--bind", "/mnt/workspaces/key/files", "/workspace") in bound
    assert ("--tmpfs", "/workspace") not in bound


def test_a_cgroup_is_shown_read_only():
    bound = options(isolation(ROOT, 7, MIB, None, ("/sys/fs/cgroup/x/sb_1", "/sys/fs/cgroup")))
    assert ("--ro-bind", "/sys/fs/cgroup/x/sb_1", "/sys/fs/cgroup") in bound


def test_the_agent_has_exactly_the_protocols_environment():
    arguments = agent("sb_1", Descriptors(seccomp=7, info=8, block=9, channel=10), "core=0")
    assert arguments[-3:] == ["--", "python3", "main.py"]
    found = options(arguments[:-3])
    assert ("--info-fd", "8") in found
    assert ("--block-fd", "9") in found
    assert ("--unsetenv", mark("sb_1")) in found
    assert found.index(("--clearenv",)) < min(found.index(each) for each in found if each[0] == "--setenv")
    assert {option[1]: option[2] for option in found if option[0] == "--setenv"} == {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "USER": "sandbox",
        "LOGNAME": "sandbox",
        "PYTHONPATH": "/opt/airlock/airlock_agent/boot",
        "AIRLOCK_CHANNEL": "listen:10",
        "AIRLOCK_RLIMITS": "core=0",
    }


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        ([], "core=0,nofile=4096,msgqueue=0"),
        (["cpu"], "core=0,nofile=4096,msgqueue=0"),
        (["pids"], "core=0,nofile=4096,msgqueue=0,nproc=256"),
        (["memory", "cpu", "pids"], "core=0,nofile=4096,msgqueue=0,nproc=256,data=536870912"),
    ],
)
def test_rlimits_stand_in_for_missing_controllers(missing, expected):
    assert rlimits(LIMITS, missing) == expected
