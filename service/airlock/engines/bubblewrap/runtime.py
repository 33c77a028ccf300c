"""The files that Airlock itself brings into a sandbox: the agent, and an /etc with nothing of the host's own.

They are copied once to a directory that is named by their content: an upgrade of the service or of the host
then changes nothing under the sandboxes that are running, and one bind, not thirty, makes an /etc.
"""

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

GENERATED = {
    "etc/passwd": b"root:x:0:0:root:/root:/usr/sbin/nologin\n"
    b"sandbox:x:1000:1000:sandbox:/tmp:/bin/sh\n"
    b"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "etc/group": b"root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n",
    "etc/hosts": b"127.0.0.1 localhost sandbox\n::1 localhost\n",
    "etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n",
}
COPIED = (
    *("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "timezone", "os-release"),
    *(
        "debian_version",
        "mime.types",
        "protocols",
        "services",
        "magic",
        "fonts",
        "perl",
        "python3*",
        "java-*",
    ),
    *("ssl/certs", "ssl/openssl.cnf", "pki/tls/certs", "pki/ca-trust/extracted"),
)
"""What the programs of the host's /usr look for in /etc."""


@dataclass(frozen=True, slots=True)
class Link:
    target: str


Files = Mapping[str, bytes | Link]


def collect(agent: Path, etc: Path) -> Files:
    """Everything, by the path that it will have. `etc` is the host's."""
    files: dict[str, bytes | Link] = {}
    for pattern in COPIED:
        for found in sorted(etc.glob(pattern)):
            files.update(_read(found, f"etc/{found.relative_to(etc)}"))
    return {**files, **GENERATED, **dict(_read(agent, "airlock_agent"))}


def digest(files: Files, python: str) -> str:
    """A name for the files, once compiled by that Python."""
    content = hashlib.sha256(python.encode())
    for name, entry in sorted(files.items()):
        kind, data = ("link", entry.target.encode()) if isinstance(entry, Link) else ("file", entry)
        content.update(f"\0{kind} {len(data)} {name}\0".encode() + data)
    return content.hexdigest()[:16]


def write(files: Files, directory: Path) -> None:
    for name, entry in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(entry, Link):
            path.symlink_to(entry.target)
        else:
            path.write_bytes(entry)


def make_public(directory: Path, owner: int) -> None:
    """For everyone to read, whatever the umask; `owner` may write."""
    for parent, _, names in os.walk(directory):
        os.chown(parent, owner, -1)
        Path(parent).chmod(0o755)
        for path in (Path(parent, name) for name in names):
            os.chown(path, owner, -1, follow_symlinks=False)
            if not path.is_symlink():
                path.chmod(0o644)


def _read(path: Path, name: str) -> Iterator[tuple[str, bytes | Link]]:
    """What is not for everyone on the host is not for a sandbox."""
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        yield name, Link(str(path.readlink()))
    elif stat.S_ISREG(mode) and mode & stat.S_IROTH:
        yield name, path.read_bytes()
    elif stat.S_ISDIR(mode) and mode & stat.S_IXOTH and path.name != "__pycache__":
        for entry in sorted(path.iterdir()):
            yield from _read(entry, f"{name}/{entry.name}")
