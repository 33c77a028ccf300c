from pathlib import Path

from airlock.engines.bubblewrap.cgroups import Cgroups, Place
from airlock.engines.bubblewrap.hierarchy import CONTROLLERS, Home
from airlock.engines.bubblewrap.report import engine_report
from airlock.model import Measure


def place(version):
    home = Home(version, Path("/sys/fs/cgroup"), is_namespace_root=True)
    return Place(home, home.directory / "airlock" / "test")


def test_with_control_groups():
    groups = Cgroups({"memory": place(1), "cpu": place(2), "pids": place(2)}, {})
    report = engine_report("0.8.0", groups, 10001)
    assert (report.engine, report.version) == ("bubblewrap", "0.8.0")
    assert [report.isolation[name] for name in CONTROLLERS] == [
        Measure(enforced=True, how="cgroup v1"),
        Measure(enforced=True, how="cgroup v2"),
        Measure(enforced=True, how="cgroup v2"),
    ]
    assert all(measure.enforced for measure in report.isolation.values())
    assert "10001" in report.isolation["user_namespace"].how


def test_without_them_it_says_what_is_not_enforced():
    isolation = engine_report("0.8.0", Cgroups({}, dict.fromkeys(CONTROLLERS, "why not")), 10001).isolation
    assert isolation["cpu"] == Measure(enforced=False, how="why not")
    assert isolation["memory"].how.startswith("rlimit, for the private memory of each process alone")
    assert isolation["pids"].how.startswith("rlimit")
    assert all("why not" in isolation[name].how for name in CONTROLLERS)
