"""The profile, compiled and loaded: what the kernel answers under it."""

import ctypes
import errno
import json
import platform
import signal
import subprocess
import sys
from importlib.resources import files

import pytest

from airlock.engines.bubblewrap.bpf import compile_profile
from airlock.errors import EngineMisconfigured

PROFILE = files("airlock.engines").joinpath("seccomp.json").read_text()

TRY = """
import ctypes, json, sys

class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]

libc = ctypes.CDLL(None, use_errno=True)
code = open(sys.argv[1], "rb").read()
program = Program(len(code) // 8, code)
assert libc.prctl(38, 1, 0, 0, 0) == 0  # no new privileges
assert libc.prctl(22, 2, ctypes.byref(program)) == 0  # seccomp filter
answers = []
for call in json.loads(sys.argv[2]):
    ctypes.set_errno(0)
    libc.syscall(*(ctypes.c_long(number) for number in call))
    answers.append(ctypes.get_errno())
print(json.dumps(answers))
"""
"""Loads a filter, makes system calls, and prints the error number of each."""

NUMBERS = {
    "x86_64": {
        "socket": 41, "clone": 56, "ptrace": 101, "personality": 135, "mount": 165, "add_key": 248,
        "unshare": 272, "perf_event_open": 298, "setns": 308, "process_vm_readv": 310, "bpf": 321,
        "userfaultfd": 323, "getpid": 39, "statx": 332,
    },
    "aarch64": {
        "socket": 198, "clone": 220, "ptrace": 117, "personality": 92, "mount": 40, "add_key": 217,
        "unshare": 97, "perf_event_open": 241, "setns": 268, "process_vm_readv": 270, "bpf": 280,
        "userfaultfd": 282, "getpid": 172, "statx": 291,
    },
}[platform.machine()] | {
    "io_uring_setup": 425, "clone3": 435, "close_range": 436, "openat2": 437, "faccessat2": 439, "newer": 9999,
}  # fmt: skip

CLONE_NEWUSER, SIGCHLD = 0x10000000, 17
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_ALG, AF_VSOCK = 1, 2, 10, 16, 17, 38, 40
RAW, DGRAM, AUDIT = 3, 2, 9
ADDR_NO_RANDOMIZE = 0x0040000


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    path = tmp_path_factory.mktemp("seccomp") / "filter"
    path.write_bytes(compile_profile(PROFILE))
    return path


def run(compiled, *calls):
    numbered = json.dumps([(NUMBERS.get(name, name), *arguments) for name, *arguments in calls])
    return subprocess.run(
        [sys.executable, "-I", "-c", TRY, compiled, numbered], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        # Each of these would be allowed, or give another error, if there were no filter.
        (("unshare", 0), errno.EPERM),
        (("setns", -1, 0), errno.EPERM),
        (("mount", 0, 0, 0, 0, 0), errno.EPERM),
        (("ptrace", 0, 0, 0, 0), errno.EPERM),
        (("process_vm_readv", 0, 0, 0, 0, 0, 0), errno.EPERM),
        (("add_key", 0, 0, 0, 0, 0), errno.EPERM),
        (("bpf", -1, 0, 0), errno.EPERM),
        (("perf_event_open", 0, 0, 0, 0, 0), errno.EPERM),
        (("userfaultfd", -1), errno.EPERM),
        (("io_uring_setup", 0, 0), errno.EPERM),
        (("socket", AF_PACKET, DGRAM, 0), errno.EAFNOSUPPORT),
        (("socket", AF_ALG, 5, 0), errno.EAFNOSUPPORT),
        (("socket", AF_VSOCK, 1, 0), errno.EAFNOSUPPORT),
        (("socket", AF_NETLINK, RAW, AUDIT), errno.ENOSYS),
        # The kernel looks at the lower half of a family alone; the filter at all of it.
        (("socket", AF_VSOCK | 1 << 32, 1, 0), errno.EAFNOSUPPORT),
        (("socket", AF_NETLINK | 1 << 32, RAW, AUDIT), errno.EAFNOSUPPORT),
        (("clone", CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0), errno.ENOSYS),
        (("personality", ADDR_NO_RANDOMIZE), errno.ENOSYS),
        (("clone3", 0, 0), errno.ENOSYS),
        (("newer",), errno.ENOSYS),
    ],
)
def test_what_is_refused(compiled, call, answer):
    result = run(compiled, call)
    assert json.loads(result.stdout) == [answer], result.stderr


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (("getpid",), 0),
        (("personality", 0xFFFFFFFF), 0),
        (("socket", AF_UNIX, DGRAM, 0), 0),
        (("socket", AF_INET, DGRAM, 0), 0),
        (("socket", AF_INET6, DGRAM, 0), 0),
        (("socket", AF_NETLINK, RAW, 0), 0),
        (("close_range", 900, 901, 0), 0),
        # What the kernel itself says to nonsense: the call got there.
        (("statx", -1, 0, 0, 0, 0), errno.EFAULT),
        (("openat2", -1, 0, 0, 0), errno.EINVAL),
        (("faccessat2", -1, 0, 0, 0), errno.EFAULT),
    ],
)
def test_what_is_let_through(compiled, call, answer):
    result = run(compiled, call)
    assert json.loads(result.stdout) == [answer], result.stderr


@pytest.mark.skipif(platform.machine() != "x86_64", reason="has no second set of calls")
def test_a_call_of_another_architecture_is_death(compiled):
    x32 = 0x40000000
    assert run(compiled, (x32 | NUMBERS["getpid"],)).returncode == -signal.SIGSYS


def small(**changes):
    entry = {"names": ["getpid", "no_such_call"], "action": "SCMP_ACT_ALLOW"}
    profile = {
        "defaultAction": "SCMP_ACT_ERRNO",
        "archMap": [
            {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": []},
            {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": []},
        ],
        "syscalls": [entry],
    }
    return json.dumps(profile | changes)


def test_calls_that_are_not_known_here_are_passed_over():
    assert len(compile_profile(small())) % 8 == 0


def test_a_rule_that_says_what_the_default_says_is_no_error():
    assert compile_profile(small(syscalls=[{"names": ["getpid"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1}]))


@pytest.mark.parametrize(
    "changes",
    [
        {"defaultAction": "SCMP_ACT_LOG"},
        {"archMap": []},
        {
            "archMap": [
                {"architecture": f"SCMP_ARCH_{platform.machine()}", "subArchitectures": ["SCMP_ARCH_X"]}
            ]
        },
        {"syscalls": [{"names": ["getpid"], "action": "SCMP_ACT_ALLOW", "includes": {"caps": []}}]},
        {"syscalls": [{"names": ["getpid"], "action": "SCMP_ACT_ERRNO", "errnoRet": 70000}]},
    ],
)
def test_what_can_not_be_compiled_faithfully_is_refused(changes):
    with pytest.raises(EngineMisconfigured):
        compile_profile(small(**changes))


def test_without_libseccomp_the_package_is_named(monkeypatch):
    def missing(*_arguments, **_options):
        raise OSError("libseccomp.so.2: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(EngineMisconfigured, match="libseccomp2"):
        compile_profile(PROFILE)
