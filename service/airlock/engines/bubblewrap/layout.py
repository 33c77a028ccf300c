"""Lays out on disk what sandboxes are made of, and has their own Python compile the agent."""

import os
import shutil
import tempfile
from pathlib import Path

import airlock_agent
from airlock.engines.bubblewrap import runtime
from airlock.engines.bubblewrap.host import Host
from airlock.engines.bubblewrap.root import given_root, host_root, python_identity
from airlock.engines.bubblewrap.spec import Root

PROBE = """
import sys
if sys.version_info < (3, 9):
    sys.exit("Python 3.9 or newer is needed; this is " + sys.version)
import asyncio, compileall, ctypes, json, multiprocessing, py_compile, resource, selectors
"""
"""Fails where Python is too old, or has only the few modules of a minimal package."""
COMPILE = f"""{PROBE}
# Unchecked: a start of the agent then looks at no source file. The names are those that tracebacks will show.
if not compileall.compile_dir(
    "airlock_agent", quiet=1, stripdir="airlock_agent", prependdir="/opt/airlock/airlock_agent",
    invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
):
    sys.exit("the agent could not be compiled")
"""


def lay_out(host: Host, runtimes: Path, rootfs: Path | None) -> Root:
    """The root of every sandbox. `runtimes` is a directory of ours, `rootfs` the user's, if there is one."""

    def root(name: str) -> Root:
        seen_at = f"{host.places['runtimes']}/{name}"
        if rootfs is None:
            return host_root(seen_at)
        return given_root(rootfs, host.places["rootfs"], seen_at)

    agent = Path(airlock_agent.__file__).parent
    files = runtime.collect(agent, etc=Path("/etc"))
    name = runtime.digest(files, python_identity(rootfs or Path("/")))
    if not (runtimes / name).is_dir():
        building = Path(tempfile.mkdtemp(prefix=".new-", dir=runtimes))
        try:
            runtime.write(files, building)
            runtime.make_public(building, host.uid)
            host.run(COMPILE, root(building.name), workspace=f"{host.places['runtimes']}/{building.name}")
            runtime.make_public(building, os.geteuid())
            building.rename(runtimes / name)
        except OSError:
            if not (runtimes / name).is_dir():  # another service has been faster
                raise
        finally:
            shutil.rmtree(building, ignore_errors=True)
    return root(name)
