"""The languages of `run_code`. A new one is one row."""

from typing import NamedTuple


class Language(NamedTuple):
    """`file` is what the code is saved as; `argv` runs it, with the file's name added at the end."""

    file: str
    argv: tuple[str, ...]


LANGUAGES = {
    "python": Language("main.py", ("python3",)),
    "bash": Language("main.sh", ("bash",)),
    "javascript": Language("main.js", ("node",)),
}
