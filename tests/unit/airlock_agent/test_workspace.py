import os

import pytest

from airlock_agent import workspace
from airlock_agent.workspace import Script, WorkspaceError


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setattr(workspace, "ROOT", str(tmp_path))
    return tmp_path


def test_a_file_is_written_with_the_directories_it_needs(root):
    workspace.write("a/b/c.txt", b"text")
    assert (root / "a/b/c.txt").read_bytes() == b"text"


@pytest.mark.parametrize("path", ["../out", "a/../../out", "/etc/passwd", "link/out", "link"])
def test_a_path_that_leads_out_is_refused(root, path):
    (root / "link").symlink_to("/etc")
    with pytest.raises(WorkspaceError) as refusal:
        workspace.write(path, b"")
    assert refusal.value.code == "PATH_OUTSIDE_WORKSPACE"


def test_a_symlink_that_stays_inside_is_followed(root):
    (root / "real").mkdir()
    (root / "link").symlink_to("real")
    workspace.write("link/file", b"x")
    assert (root / "real/file").read_bytes() == b"x"


def test_a_file_where_a_directory_is_needed_is_a_refusal_with_its_reason(root):
    workspace.write("file", b"")
    with pytest.raises(WorkspaceError, match="can't write 'file/x': ") as refusal:
        workspace.write("file/x", b"")
    assert refusal.value.code == "INVALID_ARGUMENTS"


def test_a_fifo_in_the_way_is_a_refusal_and_no_wait(root):
    os.mkfifo(root / "fifo")
    with pytest.raises(WorkspaceError):
        workspace.write("fifo", b"x")


def test_a_locked_workspace_is_unlocked(root):
    root.chmod(0)
    workspace.unlock()
    assert root.stat().st_mode & 0o777 == 0o700


def test_a_cwd_must_be_a_directory(root):
    workspace.write("file", b"")
    for path in ("file", "nothing"):
        with pytest.raises(WorkspaceError):
            workspace.directory(path)
    assert workspace.directory(".") == str(root)


def test_a_script_never_overwrites_the_callers_file(root):
    (root / "main.py").write_text("mine")
    script = Script(str(root), "main.py", b"theirs", "cafe")
    assert script.name == "main_cafe.py"
    assert (root / "main_cafe.py").read_bytes() == b"theirs"
    script.remove()
    assert os.listdir(root) == ["main.py"]
    assert (root / "main.py").read_text() == "mine"


def test_what_a_program_put_in_its_scripts_place_stays(root):
    script = Script(str(root), "main.py", b"old", "cafe")
    (root / "new").write_text("new")
    (root / "new").rename(root / "main.py")
    script.remove()
    assert (root / "main.py").read_text() == "new"
