import pytest

from airlock.engines.docker.report import engine_report
from airlock.errors import EngineMisconfigured

INFO = {
    "ServerVersion": "20.10.24",
    "MemoryLimit": True,
    "SwapLimit": True,
    "CpuCfsQuota": True,
    "PidsLimit": True,
    "CgroupVersion": "2",
    "SecurityOptions": ["name=apparmor", "name=seccomp,profile=default", "name=cgroupns"],
    "Runtimes": {"runc": {}, "runsc": {}},
    "DefaultRuntime": "runc",
}


def measures(runtime=None, **changes):
    return engine_report({**INFO, **changes}, runtime).isolation


def test_a_full_host_enforces_all_but_a_user_namespace():
    report = engine_report(INFO, None)
    assert (report.engine, report.version) == ("docker", "20.10.24")
    assert {name for name, measure in report.isolation.items() if not measure.enforced} == {"user_namespace"}
    assert report.isolation["memory"].how == "cgroup v2 memory limit, swap off"
    assert report.isolation["runtime"].how == "runc"


@pytest.mark.parametrize(
    ("name", "capability"), [("memory", "MemoryLimit"), ("cpu", "CpuCfsQuota"), ("pids", "PidsLimit")]
)
def test_a_limit_that_the_host_lacks_is_not_claimed(name, capability):
    assert not measures(**{capability: False})[name].enforced


def test_swap_that_can_not_be_limited_is_told():
    assert "swap is not limited" in measures(SwapLimit=False)["memory"].how


def test_the_size_of_a_named_workspace_is_not_claimed():
    assert "named workspace is a volume whose size is not limited" in measures()["disk"].how


@pytest.mark.parametrize("options", [None, [], ["name=apparmor"]])
def test_a_host_without_seccomp_is_told(options):
    assert not measures(SecurityOptions=options)["seccomp"].enforced


@pytest.mark.parametrize("option", ["rootless", "userns"])
def test_a_user_namespace_is_told(option):
    assert measures(SecurityOptions=[f"name={option}"])["user_namespace"].enforced


@pytest.mark.parametrize("runtime", ["runsc", "io.containerd.kata.v2"])
def test_a_runtime_that_can_be_had_is_reported(runtime):
    assert measures(runtime)["runtime"].how == runtime


def test_an_unknown_runtime_is_refused_with_what_there_is():
    with pytest.raises(EngineMisconfigured, match=r"'kata'.* choose one of runc, runsc"):
        measures("kata")
