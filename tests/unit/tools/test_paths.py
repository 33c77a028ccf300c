import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from airlock.errors import PathOutsideWorkspace
from airlock.tools.paths import FilePath, RelativePath

DIRECTORY = TypeAdapter(RelativePath)
FILE = TypeAdapter(FilePath)


@pytest.mark.parametrize(
    "path", ["a", "a/b.txt", "..a", "a..", "a/...", ".hidden", "a b", "é" * 255, "./a", "a\n"]
)
def test_paths_of_files(path: str):
    assert FILE.validate_python(path) == path


@pytest.mark.parametrize("path", [".", "a/", "a/."])
def test_paths_of_directories(path: str):
    assert DIRECTORY.validate_python(path) == path
    with pytest.raises(ValidationError, match="directory"):
        FILE.validate_python(path)


@pytest.mark.parametrize("path", ["/", "/etc/passwd", "..", "../a", "a/../b", "a/..", "./..", "//a"])
def test_what_leads_out(path: str):
    with pytest.raises(PathOutsideWorkspace):
        DIRECTORY.validate_python(path)


@pytest.mark.parametrize("path", ["", "a" * 256, "a\0b", "\ud800"])
def test_what_is_no_path(path: str):
    with pytest.raises(ValidationError):
        DIRECTORY.validate_python(path)


@given(st.text(st.sampled_from("a./\0\n"), max_size=6))
@example("a\n/..")
@example("..\n")
@pytest.mark.parametrize("paths", [DIRECTORY, FILE], ids=["directory", "file"])
def test_the_documented_pattern_means_the_same(paths: TypeAdapter[str], path: str):
    try:
        paths.validate_python(path)
        accepted = True
    except (ValidationError, PathOutsideWorkspace):
        accepted = False
    # Python's `$` is the only one that also matches before a last line break.
    pattern = paths.json_schema()["pattern"].replace("$", r"\Z")
    assert bool(re.search(pattern, path)) == accepted
