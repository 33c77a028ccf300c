"""From a sandbox's specification to the body of Docker's `POST /containers/create`. Pure."""

from datetime import datetime
from typing import Any

from airlock.engines.docker.labels import container_labels, volume_labels
from airlock.model import Limits, SandboxSpec
from airlock.settings import MIB, Settings

UID = 1000
PLAIN_RUNTIMES = frozenset({None, "runc", "crun", "io.containerd.runc.v2"})
KERNEL_THREADS = 64
"""Any other runtime (gVisor, Kata) brings a kernel of its own, whose threads count as the sandbox's.
gVisor's are some 35, and with fewer it does not start."""
SHM_BYTES = 64 * MIB
CPU_PERIOD = 100_000
MIN_CPU_QUOTA = 1_000
"""Microseconds; the kernel takes no less."""

ENVIRONMENT = [
    "HOME=/tmp",
    "LANG=C.UTF-8",
    "USER=sandbox",
    "LOGNAME=sandbox",
    "PYTHONPATH=/opt/airlock/airlock_agent/boot",
    "AIRLOCK_CHANNEL=stdio",
    "HOSTNAME",  # without a value: not set, where Docker would set it. PATH is the image's, or Docker's own.
]

ULIMITS = [
    {"Name": "core", "Soft": 0, "Hard": 0},
    {"Name": "nofile", "Soft": 1024, "Hard": 4096},  # as Linux itself; a daemon may not be able to give more
    {"Name": "msgqueue", "Soft": 0, "Hard": 0},  # or /dev/mqueue would be a fourth writable place
]


def container_name(instance: str, sandbox_id: str) -> str:
    return f"{instance}-{sandbox_id}"


def create_body(spec: SandboxSpec, settings: Settings, seccomp: str, created_at: datetime) -> dict[str, Any]:
    return {
        "Image": spec.image or settings.docker_image,
        "Entrypoint": ["python3", "main.py"],
        "Cmd": [],
        "Env": ENVIRONMENT,
        "WorkingDir": "/workspace",
        "User": f"{UID}:{UID}",
        "Hostname": "sandbox",
        "Labels": container_labels(spec, settings.instance, created_at),
        "Tty": False,
        # The agent's channel is stdin, which must outlive the service's connection to it.
        "OpenStdin": True,
        "StdinOnce": False,
        "HostConfig": _host_config(spec, settings, seccomp),
    }


def _host_config(spec: SandboxSpec, settings: Settings, seccomp: str) -> dict[str, Any]:
    config: dict[str, Any] = {
        "NetworkMode": "none",
        "ReadonlyRootfs": True,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true", f"seccomp={seccomp}"],
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "Init": False,
        "LogConfig": {"Type": "none", "Config": {}},
        "RestartPolicy": {"Name": "no"},
        "Ulimits": ULIMITS,
        **_limits(spec.limits, settings.docker_runtime),
        **_places(spec, settings.instance),
    }
    if settings.docker_runtime is not None:
        config["Runtime"] = settings.docker_runtime
    return config


def _limits(limits: Limits, runtime: str | None) -> dict[str, Any]:
    return {
        "Memory": limits.memory_bytes,
        "MemorySwap": limits.memory_bytes,  # memory and swap together: no swap is left
        "PidsLimit": limits.pids if runtime in PLAIN_RUNTIMES else limits.pids + KERNEL_THREADS,
        # A quota, for NanoCpus refuses more processors than the host has.
        "CpuPeriod": CPU_PERIOD,
        "CpuQuota": max(MIN_CPU_QUOTA, round(limits.cpus * CPU_PERIOD)),
    }


def _places(spec: SandboxSpec, instance: str) -> dict[str, Any]:
    """The writable places: /tmp, /dev/shm and /workspace."""
    size = spec.limits.tmp_bytes
    tmpfs = {"/tmp": _tmpfs(size, "mode=1777")}  # noqa: S108 - a path in the sandbox
    places: dict[str, Any] = {"ShmSize": min(SHM_BYTES, size), "Tmpfs": tmpfs}
    if spec.workspace is None:
        tmpfs["/workspace"] = _tmpfs(size, f"mode=0755,uid={UID},gid={UID}")
    else:
        # A volume by name, which the daemon makes where there is none, needs no path that the service and
        # the daemon both see. Its owner is that of /workspace in the image.
        volume = {
            "Type": "volume",
            "Source": f"{instance}-ws-{spec.workspace.key}",
            "Target": "/workspace",
            "VolumeOptions": {"Labels": volume_labels(spec.workspace, instance)},
        }
        places["Mounts"] = [volume]
    return places


def _tmpfs(size: int, options: str) -> str:
    return f"rw,exec,nosuid,nodev,size={size},{options}"
