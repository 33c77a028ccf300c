from pathlib import Path

from airlock.engines.bubblewrap.hierarchy import Home, Mount, locate, parse_membership, parse_mounts

V1_MOUNTS = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
"""
V1_MEMBERSHIP = """\
9:name=systemd:/user.slice
8:pids:/user.slice/user-0.slice
4:memory:/
1:cpu,cpuacct:/user.slice
0::/user.slice/session-1.scope
"""
V2_MOUNTS = "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


def test_v1():
    homes = locate(V1_MOUNTS, V1_MEMBERSHIP)
    assert homes == {
        "memory": Home(1, Path("/sys/fs/cgroup/memory"), is_namespace_root=True),
        "cpu": Home(1, Path("/sys/fs/cgroup/cpu,cpuacct/user.slice"), is_namespace_root=False),
        "pids": Home(1, Path("/sys/fs/cgroup/pids/user.slice/user-0.slice"), is_namespace_root=False),
    }


def test_v2():
    homes = locate(V2_MOUNTS, "0::/system.slice/airlock.service\n")
    home = Home(2, Path("/sys/fs/cgroup/system.slice/airlock.service"), is_namespace_root=False)
    assert homes == {"memory": home, "cpu": home, "pids": home}


def test_v2_in_a_cgroup_namespace_of_its_own():
    homes = locate(V2_MOUNTS, "0::/\n")
    assert homes["memory"] == Home(2, Path("/sys/fs/cgroup"), is_namespace_root=True)


def test_v2_after_an_earlier_start_has_moved_us_to_the_leaf():
    homes = locate(V2_MOUNTS, "0::/airlock-service\n")
    assert homes["memory"] == Home(2, Path("/sys/fs/cgroup"), is_namespace_root=True)


def test_in_hybrid_mode_v2_has_what_no_v1_hierarchy_has():
    without_pids = "".join(line for line in V1_MOUNTS.splitlines(keepends=True) if "pids" not in line)
    unified = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
    homes = locate(without_pids + unified, V1_MEMBERSHIP)
    assert homes["memory"].version == homes["cpu"].version == 1
    assert homes["pids"] == Home(
        2, Path("/sys/fs/cgroup/unified/user.slice/session-1.scope"), is_namespace_root=False
    )


def test_in_a_container_the_mount_begins_at_the_containers_group():
    mounts = "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
    assert locate(mounts, "4:memory:/docker/abc\n") == {
        "memory": Home(1, Path("/sys/fs/cgroup/memory"), is_namespace_root=False)
    }


def test_a_group_that_the_mount_does_not_show_is_none():
    mounts = "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
    assert locate(mounts, "4:memory:/docker/other\n") == {}
    assert locate(V2_MOUNTS, "0::/../outside\n") == {}


def test_no_cgroups_at_all():
    assert locate("22 27 0:21 / /proc rw,relatime - proc proc rw\n", "") == {}


def test_escaped_paths():
    (mount,) = parse_mounts("35 31 0:32 / /sys/fs/my\\040groups rw - cgroup2 cgroup2 rw\n")
    assert mount == Mount(2, frozenset(), "/", "/sys/fs/my groups")


def test_a_groups_name_may_have_colons():
    assert parse_membership("0::/a:b\n") == {"": "/a:b"}
