"""What the bubblewrap engine enforces on this machine. Pure."""

from airlock.engines.bubblewrap.cgroups import Cgroups
from airlock.model import EngineReport, Measure

STAND_INS = {
    "memory": "rlimit, for the private memory of each process alone",
    "pids": "rlimit, for the sandbox's user",
}


def engine_report(version: str, cgroups: Cgroups, uid: int) -> EngineReport:
    return EngineReport(
        engine="bubblewrap",
        version=version,
        isolation={
            "memory": _limit(cgroups, "memory"),
            "cpu": _limit(cgroups, "cpu"),
            "pids": _limit(cgroups, "pids"),
            "disk": Measure(
                enforced=True,
                how="sized tmpfs for /tmp, /dev/shm and private workspaces, read-only root; "
                "the size of a named workspace is not limited",
            ),
            "network": Measure(enforced=True, how="a network namespace with nothing but loopback"),
            "privileges": Measure(enforced=True, how="no capabilities, no new privileges, not root"),
            "seccomp": Measure(enforced=True, how="Airlock's own profile"),
            "user_namespace": Measure(enforced=True, how=f"the host's user {uid}, 1000 in the sandbox"),
        },
    )


def _limit(cgroups: Cgroups, controller: str) -> Measure:
    if (place := cgroups.places.get(controller)) is not None:
        return Measure(enforced=True, how=f"cgroup v{place.version}")
    why = cgroups.missing[controller]
    if (stand_in := STAND_INS.get(controller)) is not None:
        return Measure(enforced=True, how=f"{stand_in} ({why})")
    return Measure(enforced=False, how=why)
