"""How bwrap is started on this machine: the program, the user, the mount namespace, the seccomp filter."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from airlock.engines.bubblewrap.bpf import compile_profile
from airlock.engines.bubblewrap.namespace import MOUNT_POINT, private_namespace
from airlock.engines.bubblewrap.spec import ENVIRONMENT, Root, isolation, setenv
from airlock.errors import EngineMisconfigured
from airlock.settings import MIB

OLDEST_BWRAP = (0, 7)
"""The first that can size a tmpfs."""
PROBE_TIMEOUT = 30


@dataclass(frozen=True, slots=True)
class Host:
    enter: tuple[str, ...]
    """The arguments before bwrap's own, the program included."""
    version: str
    uid: int
    """The host's user that sandboxes run as."""
    seccomp: int
    """A descriptor of the compiled filter."""
    namespace: int | None
    """A descriptor of the mount namespace that bwrap starts in, if not the service's own."""
    places: Mapping[str, str]
    """Where bwrap sees directories of the service's, by their names."""

    def open_seccomp(self) -> int:
        """A descriptor of its own for each bwrap, since it reads the file to its end."""
        return os.open(f"/proc/self/fd/{self.seccomp}", os.O_RDONLY | os.O_CLOEXEC)

    def run(self, program: str, root: Root, workspace: str | None = None) -> None:
        """Run a Python program in a sandbox that lives as long as this call. Raises if it fails."""
        seccomp = self.open_seccomp()
        arguments = [
            "--die-with-parent",
            *isolation(root, seccomp, 16 * MIB, workspace),
            *setenv(ENVIRONMENT),
        ]
        command = [*self.enter, *arguments, "--", "python3", "-I", "-c", program]
        try:
            result = subprocess.run(
                command,
                pass_fds=[seccomp],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PROBE_TIMEOUT,
                check=False,
                env={},
            )
        except subprocess.TimeoutExpired as error:
            raise EngineMisconfigured(f"a first sandbox did not end in {PROBE_TIMEOUT} s") from error
        finally:
            os.close(seccomp)
        if result.returncode != 0:
            complaint = result.stderr.decode(errors="replace").strip()[-500:]
            raise EngineMisconfigured(
                f"a first sandbox failed: {complaint}. Sandboxes need Python 3.9 or newer with its whole "
                "standard library (the package python3, not python3-minimal), and a kernel that lets "
                "ordinary users make user namespaces (in a container: docker run --privileged)"
            )

    def close(self) -> None:
        os.close(self.seccomp)
        if self.namespace is not None:
            os.close(self.namespace)


def open_host(sandbox_uid: int, directories: Mapping[str, Path]) -> Host:
    """`sandbox_uid` is for a service that is root; any other runs its sandboxes as itself."""
    bwrap = _program("bwrap", "bubblewrap")
    version = _version(bwrap)
    with ExitStack() as undo:
        seccomp = os.memfd_create("seccomp", os.MFD_CLOEXEC)
        undo.callback(os.close, seccomp)
        os.write(seccomp, compile_profile(files("airlock.engines").joinpath("seccomp.json").read_text()))
        if os.geteuid() != 0:
            seen = {name: str(path) for name, path in directories.items()}
            undo.pop_all()
            return Host((bwrap,), version, os.geteuid(), seccomp, None, seen)
        nsenter = _program("nsenter", "util-linux")
        namespace = private_namespace(directories)
        undo.pop_all()
    user = ("--setuid", str(sandbox_uid), "--setgid", str(sandbox_uid))
    # By the service's pid: an inherited descriptor would be the sandbox's as well.
    enter = (nsenter, f"--mount=/proc/{os.getpid()}/fd/{namespace}", *user, "--", bwrap)
    seen = {name: str(MOUNT_POINT / name) for name in directories}
    return Host(enter, version, sandbox_uid, seccomp, namespace, seen)


def _program(name: str, package: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise EngineMisconfigured(f"the program {name} is not installed: apt-get install {package}")
    return path


def _version(bwrap: str) -> str:
    """`bubblewrap 0.8.0`."""
    output = subprocess.run([bwrap, "--version"], capture_output=True, text=True, check=False).stdout
    version = output.strip().rpartition(" ")[2]
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < OLDEST_BWRAP:
        raise EngineMisconfigured(f"bubblewrap 0.7 or newer is needed; this one says {output.strip()!r}")
    return version
