import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from airlock.engines.docker.spec import container_name, create_body
from airlock.model import Limits, Owner, SandboxSpec, Workspace
from airlock.settings import MIB, Settings

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
SECCOMP = json.dumps({"defaultAction": "SCMP_ACT_ERRNO"})
LIMITS = Limits(cpus=1.5, memory_bytes=512 * MIB, pids=256, tmp_bytes=256 * MIB, output_bytes=MIB)
SPEC = SandboxSpec("sb_1", Owner("acme", "ann"), LIMITS)
WORKSPACE = Workspace(Owner("acme", "ann"), "proj1")


@pytest.fixture
def settings():
    return Settings(instance="blue", docker_image="sandbox:1")


def host_config(spec, settings):
    return create_body(spec, settings, SECCOMP, NOW)["HostConfig"]


def test_the_agent_is_the_first_process_and_speaks_over_stdio(settings):
    body = create_body(SPEC, settings, SECCOMP, NOW)
    assert body["Entrypoint"] == ["python3", "main.py"]
    assert body["Cmd"] == []
    assert body["WorkingDir"] == "/workspace"
    assert body["HostConfig"]["Init"] is False
    assert (body["OpenStdin"], body["StdinOnce"], body["Tty"]) == (True, False, False)


def test_the_environment_is_the_protocols(settings):
    environment = create_body(SPEC, settings, SECCOMP, NOW)["Env"]
    assert sorted(environment) == [
        "AIRLOCK_CHANNEL=stdio",
        "HOME=/tmp",
        "HOSTNAME",
        "LANG=C.UTF-8",
        "LOGNAME=sandbox",
        "PYTHONPATH=/opt/airlock/airlock_agent/boot",
        "USER=sandbox",
    ]


def test_every_hardening_measure_is_asked_for(settings):
    body = create_body(SPEC, settings, SECCOMP, NOW)
    config = body["HostConfig"]
    assert body["User"] == "1000:1000"
    assert config["NetworkMode"] == "none"
    assert config["ReadonlyRootfs"] is True
    assert config["CapDrop"] == ["ALL"]
    assert config["SecurityOpt"] == ["no-new-privileges:true", f"seccomp={SECCOMP}"]
    assert config["IpcMode"] == "private"
    assert config["CgroupnsMode"] == "private"
    assert config["LogConfig"]["Type"] == "none"
    assert {"Name": "core", "Soft": 0, "Hard": 0} in config["Ulimits"]
    assert not {"Binds", "Privileged", "CapAdd", "Devices", "PidMode", "UsernsMode"} & config.keys()


def test_limits_are_the_kernels_and_leave_no_swap(settings):
    config = host_config(SPEC, settings)
    assert config["Memory"] == config["MemorySwap"] == 512 * MIB
    assert config["PidsLimit"] == 256
    assert (config["CpuQuota"], config["CpuPeriod"]) == (150_000, 100_000)


def test_a_share_of_a_processor_too_small_for_the_kernel_is_the_smallest(settings):
    config = host_config(replace(SPEC, limits=replace(LIMITS, cpus=0.001)), settings)
    assert config["CpuQuota"] == 1_000


def test_a_runtime_with_a_kernel_of_its_own_gets_threads_for_it(settings):
    gvisor = settings.model_copy(update={"docker_runtime": "runsc"})
    assert host_config(SPEC, gvisor)["PidsLimit"] == 256 + 64
    runc = settings.model_copy(update={"docker_runtime": "runc"})
    assert host_config(SPEC, runc)["PidsLimit"] == 256


def test_without_a_workspace_a_private_one_goes_with_the_container(settings):
    config = host_config(SPEC, settings)
    assert "Mounts" not in config
    assert config["Tmpfs"] == {
        "/tmp": f"rw,exec,nosuid,nodev,size={256 * MIB},mode=1777",
        "/workspace": f"rw,exec,nosuid,nodev,size={256 * MIB},mode=0755,uid=1000,gid=1000",
    }


def test_a_workspace_is_a_volume_of_its_own_name(settings):
    config = host_config(replace(SPEC, workspace=WORKSPACE), settings)
    assert list(config["Tmpfs"]) == ["/tmp"]
    [mount] = config["Mounts"]
    assert (mount["Type"], mount["Target"]) == ("volume", "/workspace")
    assert mount["Source"] == f"blue-ws-{WORKSPACE.key}"
    assert mount["VolumeOptions"]["Labels"] == {
        "airlock.instance": "blue",
        "airlock.workspace": "proj1",
        "airlock.workspace.tenant": "acme",
        "airlock.workspace.user": "ann",
    }


def test_shared_memory_is_modest(settings):
    assert host_config(SPEC, settings)["ShmSize"] == 64 * MIB
    small = replace(SPEC, limits=replace(LIMITS, tmp_bytes=MIB))
    assert host_config(small, settings)["ShmSize"] == MIB


def test_image_and_runtime_are_settings_and_an_image_can_be_asked_for(settings):
    assert create_body(SPEC, settings, SECCOMP, NOW)["Image"] == "sandbox:1"
    assert create_body(replace(SPEC, image="data:2"), settings, SECCOMP, NOW)["Image"] == "data:2"
    assert "Runtime" not in host_config(SPEC, settings)
    gvisor = settings.model_copy(update={"docker_runtime": "runsc"})
    assert host_config(SPEC, gvisor)["Runtime"] == "runsc"


def test_the_body_is_json(settings):
    assert json.loads(json.dumps(create_body(SPEC, settings, SECCOMP, NOW)))


def test_names_tell_instances_apart():
    assert container_name("blue", "sb_1") == "blue-sb_1"
