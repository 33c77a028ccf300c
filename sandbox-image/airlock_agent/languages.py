"""The languages of `run_code`. A new one is one row."""

from collections import namedtuple

Language = namedtuple("Language", ("file", "argv"))
"""`file` is what the code is saved as; `argv` runs it, with the file's name added at the end."""

LANGUAGES = {
    "python": Language("main.py", ("python3",)),
    "bash": Language("main.sh", ("bash",)),
    "javascript": Language("main.js", ("node",)),
}
