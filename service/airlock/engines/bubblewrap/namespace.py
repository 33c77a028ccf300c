"""A mount namespace of the engine's own.

A service that is root runs bwrap as another user, who may not pass through the directories that lead to the
service's files (a home directory of mode 0700, for one). So those files are bound below /mnt in a namespace
that only the engine's bwraps are started in. The host sees none of it, and it goes with its last user.
"""

import ctypes
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from airlock.errors import EngineMisconfigured

MOUNT_POINT = Path("/mnt")
CLONE_NEWNS = 0x00020000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_SLAVE = 2, 4, 1 << 12, 1 << 14, 1 << 19


def private_namespace(directories: Mapping[str, Path]) -> int:
    """A descriptor of a new mount namespace, where each directory is to be seen by its name below /mnt."""
    # A thread can have a namespace of its own, and this one is used for nothing else.
    with ThreadPoolExecutor(max_workers=1) as thread:
        try:
            return thread.submit(_make, directories).result()
        except PermissionError as error:
            raise EngineMisconfigured(
                "the service is root but may not make a mount namespace: give its container CAP_SYS_ADMIN "
                "(docker run --privileged), or run it as another user"
            ) from error


def _make(directories: Mapping[str, Path]) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.unshare(CLONE_NEWNS), "unshare")
    # What the host unmounts goes from here too, and nothing that is done here is seen on the host.
    _mount(libc, "none", Path("/"), MS_REC | MS_SLAVE)
    with ExitStack() as opened:
        sources = {}
        for name, path in directories.items():  # before the tmpfs, which may cover them
            sources[name] = os.open(path, os.O_PATH | os.O_DIRECTORY)
            opened.callback(os.close, sources[name])
        _mount(libc, "tmpfs", MOUNT_POINT, MS_NOSUID | MS_NODEV, "tmpfs", options="mode=0755,size=64k")
        for name, descriptor in sources.items():
            (MOUNT_POINT / name).mkdir()
            (MOUNT_POINT / name).chmod(0o755)  # whatever the umask
            _mount(libc, f"/proc/thread-self/fd/{descriptor}", MOUNT_POINT / name, MS_BIND | MS_REC)
    return os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)


def _mount(
    libc: ctypes.CDLL, source: str, target: Path, flags: int, kind: str | None = None, *, options: str = ""
) -> None:
    result = libc.mount(
        source.encode(),
        os.fsencode(target),
        kind and kind.encode(),
        ctypes.c_ulong(flags),
        options.encode(),
    )
    _check(result, f"mount {target}")


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
