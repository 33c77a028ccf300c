"""The interpreter, between the agent that it has been and the program that a child of it becomes.

A forked child shares the agent's memory until it writes to it, and then pays for a copy, page by page. Most
of what a short program would write is at its end, where Python walks over all objects and frees them. So the
agent's objects are kept out of the collector's sight, and alive for ever.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Set


def settle() -> None:
    """In the agent, once it is up: what is there now is not walked over again, in any child."""
    gc.collect()
    gc.freeze()


def hand_over(loaded: Set[str], searched: Set[str]) -> None:
    """In a child: leave the modules and importers that a fresh interpreter would have at this point."""
    for path in sys.path_importer_cache.keys() - searched:
        del sys.path_importer_cache[path]
    ours = [sys.modules.pop(name) for name in sys.modules.keys() - loaded]
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(ours))
    # What the program leaves in its `__main__` must be collected at its end, so it can't be a frozen one.
    fresh = type(sys)("__main__")
    fresh.__dict__.update(sys.modules["__main__"].__dict__)
    sys.modules["__main__"] = fresh
