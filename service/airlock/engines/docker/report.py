"""What a Docker host enforces, read from what it says of itself in `docker info`. Pure."""

from collections.abc import Mapping
from typing import Any

from airlock.errors import EngineMisconfigured
from airlock.model import EngineReport, Measure


def engine_report(info: Mapping[str, Any], runtime: str | None) -> EngineReport:
    know_runtime(info, runtime)
    return EngineReport(
        engine="docker",
        version=info["ServerVersion"],
        isolation={
            "memory": _memory(info),
            "cpu": _limit(info, "CpuCfsQuota", "cpu quota"),
            "pids": _limit(info, "PidsLimit", "pids limit"),
            "disk": Measure(
                enforced=True,
                how="sized tmpfs for /tmp, /dev/shm and private workspaces, read-only root; "
                "a named workspace is a volume whose size is not limited",
            ),
            "network": Measure(enforced=True, how="a network namespace with nothing but loopback"),
            "privileges": Measure(enforced=True, how="no capabilities, no new privileges, not root"),
            "seccomp": _seccomp(info),
            "user_namespace": _user_namespace(info),
            "runtime": Measure(enforced=True, how=runtime or info["DefaultRuntime"]),
        },
    )


def know_runtime(info: Mapping[str, Any], runtime: str | None) -> None:
    # containerd's shims can be named without being registered, and are then not listed.
    if runtime is None or runtime in info["Runtimes"] or runtime.startswith("io.containerd."):
        return
    known = ", ".join(sorted(info["Runtimes"]))
    raise EngineMisconfigured(
        f"Docker does not know the runtime {runtime!r} of AIRLOCK_DOCKER_RUNTIME: "
        f"register it with the daemon, or choose one of {known}"
    )


def _limit(info: Mapping[str, Any], capability: str, name: str) -> Measure:
    if info.get(capability):
        return Measure(enforced=True, how=f"cgroup v{info.get('CgroupVersion', '1')} {name}")
    return Measure(enforced=False, how=f"Docker can't set a {name} here")


def _memory(info: Mapping[str, Any]) -> Measure:
    limit = _limit(info, "MemoryLimit", "memory limit")
    if not limit.enforced:
        return limit
    swap = "swap off" if info.get("SwapLimit") else "but swap is not limited here"
    return Measure(enforced=True, how=f"{limit.how}, {swap}")


def _options(info: Mapping[str, Any]) -> set[str]:
    """`["name=seccomp,profile=default", …]` to `{"seccomp", …}`."""
    return {option.split(",")[0].removeprefix("name=") for option in info.get("SecurityOptions") or ()}


def _seccomp(info: Mapping[str, Any]) -> Measure:
    if "seccomp" in _options(info):
        return Measure(enforced=True, how="Airlock's own profile")
    return Measure(enforced=False, how="Docker has no seccomp here")


def _user_namespace(info: Mapping[str, Any]) -> Measure:
    options = _options(info)
    for name, how in (("rootless", "rootless Docker"), ("userns", "userns-remap")):
        if name in options:
            return Measure(enforced=True, how=how)
    return Measure(enforced=False, how="users are the host's own; set userns-remap in Docker to change that")
