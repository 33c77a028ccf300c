"""What a sandbox's root is put together from: the host's /usr, or a root file system of the user's.

Either is bound piece by piece on bwrap's own tmpfs, so a root file system needs no mount points of ours.
"""

from pathlib import Path

from airlock.engines.bubblewrap.spec import AGENT, Root

HOST_PIECES = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
NOT_TAKEN = frozenset(
    {"boot", "dev", "lost+found", "media", "mnt", "opt", "proc", "run", "sys", "tmp", "workspace"}
)


def host_root(runtime: str) -> Root:
    """The programs and libraries of the host, with an /etc of ours."""
    root = _put_together(Path("/"), "/", [Path("/", name) for name in HOST_PIECES])
    return Root((*root.binds, (f"{runtime}/etc", "/etc"), _agent(runtime)), root.links)


def given_root(rootfs: Path, seen_at: str, runtime: str) -> Root:
    """All of `rootfs`, which bwrap sees at `seen_at`; of its /etc, only the users are ours."""
    pieces = [path for path in sorted(rootfs.iterdir()) if path.name not in NOT_TAKEN]
    # /opt can't be bound whole: the agent goes there.
    pieces += [path for path in sorted(rootfs.glob("opt/*")) if path.name != "airlock"]
    root = _put_together(rootfs, seen_at, pieces)
    users = [
        (f"{runtime}/etc/{name}", f"/etc/{name}")
        for name in ("passwd", "group")
        if (rootfs / "etc" / name).is_file()
    ]
    return Root((*root.binds, *users, _agent(runtime)), root.links)


def python_identity(rootfs: Path) -> str:
    """Something that changes when the Python of a root does. Empty if there seems to be none."""
    for directory in ("usr/local/bin", "usr/bin"):
        python = rootfs / directory / "python3"
        if python.exists():
            status = python.stat()
            return f"{python.resolve()} {status.st_size} {status.st_mtime_ns}"
    return ""


def _put_together(rootfs: Path, seen_at: str, pieces: list[Path]) -> Root:
    """Directories are bound, links are made again; anything else is left out."""
    inner = {path: str(path.relative_to(rootfs)) for path in pieces}
    return Root(
        tuple(
            (str(Path(seen_at, name)), f"/{name}")
            for path, name in inner.items()
            if path.is_dir() and not path.is_symlink()
        ),
        tuple((str(path.readlink()), f"/{name}") for path, name in inner.items() if path.is_symlink()),
    )


def _agent(runtime: str) -> tuple[str, str]:
    return f"{runtime}/airlock_agent", AGENT
