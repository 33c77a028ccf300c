"""Files in the workspace. A path never leads out of it, whatever symlinks lie in the way."""

from __future__ import annotations

import os

ROOT = "/workspace"
WRITABLE = (ROOT, "/tmp", "/dev/shm")


class WorkspaceError(Exception):
    """A call that can't be done, with a code of the service's taxonomy."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def resolve(path: str) -> str:
    """The real path of `path`, which is relative to the workspace."""
    real = os.path.realpath(os.path.join(ROOT, path))
    if real != ROOT and not real.startswith(ROOT + "/"):
        raise WorkspaceError("PATH_OUTSIDE_WORKSPACE", f"{path!r} leads out of the workspace")
    return real


def directory(path: str) -> str:
    real = resolve(path)
    if not os.path.isdir(real):
        raise WorkspaceError("INVALID_ARGUMENTS", f"cwd {path!r} is not a directory of the workspace")
    return real


def write(path: str, data: bytes) -> None:
    """Make a file of the workspace, and the directories that it needs."""
    real = resolve(path)
    try:
        os.makedirs(os.path.dirname(real), exist_ok=True)
        # Not blocking, for a FIFO lets one wait for whoever reads it.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(real, flags, 0o644), "wb") as file:
            file.write(data)
    except OSError as error:
        raise _refusal(path, error) from error


def unlock() -> None:
    """A program may have left the workspace so that not even its owner can enter."""
    try:
        mode = os.stat(ROOT).st_mode
        if mode & 0o700 != 0o700:
            os.chmod(ROOT, (mode | 0o700) & 0o7777)
    except OSError:
        pass  # then calls will say what they can't do


class Script:
    """A caller's code as a file beside the caller's own files, gone when the program has ended."""

    def __init__(self, folder: str, name: str, source: bytes, unique: str) -> None:
        stem, extension = os.path.splitext(name)
        try:
            self.name, descriptor = _open_new(folder, (name, f"{stem}_{unique}{extension}"))
            with os.fdopen(descriptor, "wb") as file:
                file.write(source)
                self._inode = os.fstat(descriptor).st_ino
        except OSError as error:
            raise _refusal(name, error) from error
        self._path = os.path.join(folder, self.name)

    def remove(self) -> None:
        """Unless the program has put something else in its place."""
        try:
            if os.lstat(self._path).st_ino == self._inode:
                os.unlink(self._path)
        except OSError:
            pass


def _open_new(folder: str, names: tuple[str, ...]) -> tuple[str, int]:
    for name in names:
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            return name, os.open(os.path.join(folder, name), flags, 0o644)
        except FileExistsError:
            continue
    raise FileExistsError(17, "both names are taken", names[-1])


def _refusal(path: str, error: OSError) -> WorkspaceError:
    return WorkspaceError("INVALID_ARGUMENTS", f"can't write {path!r}: {error.strerror}")


def is_full() -> bool:
    """Whether a writable place has no room left."""
    for place in WRITABLE:
        try:
            space = os.statvfs(place)
        except OSError:
            continue
        if space.f_bavail == 0 or (space.f_files and space.f_favail == 0):
            return True
    return False


def installed(program: str) -> bool:
    return any(os.access(os.path.join(folder, program), os.X_OK) for folder in os.get_exec_path())
