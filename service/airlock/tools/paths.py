"""Paths of a workspace, as callers write them. What a path leads to is decided in the sandbox."""

from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, Field

from airlock.errors import PathOutsideWorkspace
from airlock.tools.arguments import NulFree

MAX_PATH_CHARACTERS = 255

# The rules below once more, for the OpenAPI document.
_INSIDE = r"^(?!/)(?!([^\u0000]*/)?\.\.(/|$))"
_A_FILE = r"(?!([^\u0000]*/)?\.?$)"
_NO_NUL = r"[^\u0000]+$"


def _inside(path: str) -> str:
    if not 1 <= len(path) <= MAX_PATH_CHARACTERS:
        raise ValueError(f"a path has 1 to {MAX_PATH_CHARACTERS} characters, and this one has {len(path)}")
    # PathOutsideWorkspace is no ValueError, so it passes through pydantic and keeps its own code.
    if path.startswith("/"):
        raise PathOutsideWorkspace("A path is absolute; give it relative to the workspace.")
    if ".." in PurePosixPath(path).parts:
        raise PathOutsideWorkspace("A path has `..` in it; give it relative to the workspace, without `..`.")
    return path


def _names_a_file(path: str) -> str:
    if path.endswith(("/", "/.")) or path == ".":
        raise ValueError("it names a directory; give the path of a file")
    return path


RelativePath = Annotated[
    NulFree,
    AfterValidator(_inside),
    Field(json_schema_extra={"maxLength": MAX_PATH_CHARACTERS, "pattern": _INSIDE + _NO_NUL}),
]
FilePath = Annotated[
    RelativePath,
    AfterValidator(_names_a_file),
    Field(json_schema_extra={"pattern": _INSIDE + _A_FILE + _NO_NUL}),
]
