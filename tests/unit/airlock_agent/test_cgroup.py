import pytest

from airlock_agent import cgroup

V1 = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"
V2 = "low 0\nhigh 0\nmax 7\noom 2\noom_kill 2\noom_group_kill 0\n"


@pytest.mark.parametrize(("text", "kills"), [(V1, 3), (V2, 2), ("under_oom 0\n", None)])
def test_oom_kills_are_read_from_either_version(tmp_path, monkeypatch, text, kills):
    (tmp_path / "events").write_text(text)
    monkeypatch.setattr(cgroup, "_OOM_FILES", (str(tmp_path / "none"), str(tmp_path / "events")))
    assert cgroup.oom_kills() == kills


def test_no_cgroup_is_no_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(cgroup, "_OOM_FILES", (str(tmp_path / "none"),))
    monkeypatch.setattr(cgroup, "_PEAK_FILES", (str(tmp_path / "none"),))
    assert cgroup.oom_kills() is None
    assert cgroup.peak_memory() is None


def test_the_peak_is_a_number_of_bytes(tmp_path, monkeypatch):
    (tmp_path / "peak").write_text("4096\n")
    monkeypatch.setattr(cgroup, "_PEAK_FILES", (str(tmp_path / "peak"),))
    assert cgroup.peak_memory() == 4096
