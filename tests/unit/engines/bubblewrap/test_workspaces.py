import json
import stat

from airlock.engines.bubblewrap.workspaces import ensure
from airlock.model import Owner, Workspace

WORKSPACE = Workspace(Owner("acme", "ann"), "Proj é/1")


def test_one_is_made_once(tmp_path):
    ensure(tmp_path, WORKSPACE, 10001)
    home = tmp_path / WORKSPACE.key
    (home / "files" / "kept").touch()
    described = (home / "workspace.json").read_text()
    ensure(tmp_path, WORKSPACE, 10001)
    assert (home / "files" / "kept").exists()
    assert (home / "workspace.json").read_text() == described
    assert sorted(path.name for path in home.iterdir()) == ["files", "workspace.json"]
    assert stat.S_IMODE((home / "files").stat().st_mode) == 0o700


def test_it_says_whose_it_is(tmp_path):
    ensure(tmp_path, WORKSPACE, 10001)
    described = json.loads((tmp_path / WORKSPACE.key / "workspace.json").read_text())
    assert described.pop("created_at")
    assert described == {"owner": {"tenant": "acme", "user": "ann"}, "name": "Proj é/1"}


def test_one_that_was_only_half_made_is_completed(tmp_path):
    (tmp_path / WORKSPACE.key / "files").mkdir(parents=True)
    ensure(tmp_path, WORKSPACE, 10001)
    assert (tmp_path / WORKSPACE.key / "workspace.json").exists()
