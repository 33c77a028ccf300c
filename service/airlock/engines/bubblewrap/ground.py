"""All that sandboxes stand on, made ready once, before the first of them. Blocking."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from airlock.engines.bubblewrap import cgroups
from airlock.engines.bubblewrap.cgroups import Cgroups
from airlock.engines.bubblewrap.hierarchy import CONTROLLERS
from airlock.engines.bubblewrap.host import Host, open_host
from airlock.engines.bubblewrap.layout import lay_out
from airlock.engines.bubblewrap.spec import Root
from airlock.errors import EngineMisconfigured
from airlock.settings import Settings


@dataclass(frozen=True, slots=True)
class Ground:
    host: Host
    root: Root
    cgroups: Cgroups
    workspaces: Path

    def close(self) -> None:
        self.cgroups.close()
        self.host.close()


def prepare(settings: Settings) -> Ground:
    try:
        return _prepare(settings)
    except OSError as error:
        raise EngineMisconfigured(f"the bubblewrap engine can't be made ready: {error}") from error


def _prepare(settings: Settings) -> Ground:
    data = settings.data_dir
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    (data / "sandboxes").mkdir(mode=0o700, exist_ok=True)
    directories = {name: data / name for name in ("runtimes", "workspaces")}
    for directory in directories.values():
        directory.mkdir(exist_ok=True)
        directory.chmod(0o711)  # sandboxes' users pass through, and look at nothing on the way
    rootfs = settings.bubblewrap_rootfs
    if rootfs is not None:
        directories["rootfs"] = rootfs
    with ExitStack() as undo:
        host = open_host(settings.bubblewrap_uid, directories)
        undo.callback(host.close)
        root = lay_out(host, data / "runtimes", rootfs)
        groups = _cgroups(settings)
        undo.pop_all()
    return Ground(host, root, groups, directories["workspaces"])


def _cgroups(settings: Settings) -> Cgroups:
    if settings.cgroups == "off":
        return Cgroups({}, dict.fromkeys(CONTROLLERS, "cgroups are off in the settings"))
    mountinfo, membership = (Path("/proc/self", name).read_text() for name in ("mountinfo", "cgroup"))
    return cgroups.prepare(settings.instance, mountinfo, membership)
