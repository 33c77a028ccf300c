"""Compiles a seccomp profile (Docker's format) to the BPF program that bwrap loads, by libseccomp.

bwrap takes a program, Docker takes a profile: with this there is one readable file for both.
"""

import ctypes
import json
import os
from collections.abc import Mapping
from typing import Any

from airlock.errors import EngineMisconfigured

ALLOW = 0x7FFF0000
ERRNO = 0x00050000
EPERM = 1

COMPARISONS = {
    "SCMP_CMP_NE": 1,
    "SCMP_CMP_LT": 2,
    "SCMP_CMP_LE": 3,
    "SCMP_CMP_EQ": 4,
    "SCMP_CMP_GE": 5,
    "SCMP_CMP_GT": 6,
    "SCMP_CMP_MASKED_EQ": 7,
}
ENTRY_KEYS = frozenset({"comment", "names", "action", "errnoRet", "args"})


class Comparison(ctypes.Structure):
    """`struct scmp_arg_cmp`. For MASKED_EQ the first datum is the mask, as in Docker's format."""

    _fields_ = (
        ("arg", ctypes.c_uint),
        ("op", ctypes.c_int),
        ("datum_a", ctypes.c_uint64),
        ("datum_b", ctypes.c_uint64),
    )


def compile_profile(text: str) -> bytes:
    """The program for this machine's architecture. Names unknown to its libseccomp are passed over."""
    profile = json.loads(text)
    library = _load()
    default = _action(profile["defaultAction"], profile.get("defaultErrnoRet"))
    context = library.seccomp_init(default)
    if not context:
        raise EngineMisconfigured("libseccomp could not start a filter")
    try:
        _check_architecture(library, profile)
        for entry in profile["syscalls"]:
            _add(library, context, entry, default)
        return _export(library, context)
    finally:
        library.seccomp_release(context)


def _load() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    except OSError as error:
        raise EngineMisconfigured(
            "libseccomp.so.2 is not installed: install the package libseccomp2 (Debian, Ubuntu) or libseccomp"
        ) from error
    library.seccomp_init.argtypes = (ctypes.c_uint32,)
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_release.argtypes = (ctypes.c_void_p,)
    library.seccomp_release.restype = None
    library.seccomp_arch_native.restype = ctypes.c_uint32
    library.seccomp_arch_resolve_name.argtypes = (ctypes.c_char_p,)
    library.seccomp_arch_resolve_name.restype = ctypes.c_uint32
    library.seccomp_syscall_resolve_name.argtypes = (ctypes.c_char_p,)
    library.seccomp_rule_add_array.argtypes = (
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_int,
        ctypes.c_uint,
        ctypes.POINTER(Comparison),
    )
    library.seccomp_export_bpf.argtypes = (ctypes.c_void_p, ctypes.c_int)
    return library


def _check_architecture(library: ctypes.CDLL, profile: Mapping[str, Any]) -> None:
    """A filter begins with the native architecture, and calls of any other are killed. We want no more."""
    native = library.seccomp_arch_native()
    for entry in profile["archMap"]:
        name = entry["architecture"].removeprefix("SCMP_ARCH_").lower()
        if library.seccomp_arch_resolve_name(name.encode()) == native:
            if entry["subArchitectures"]:
                raise EngineMisconfigured("the seccomp profile names sub-architectures; none is supported")
            return
    raise EngineMisconfigured("the seccomp profile does not know this machine's architecture")


def _add(library: ctypes.CDLL, context: int, entry: Mapping[str, Any], default: int) -> None:
    unknown = entry.keys() - ENTRY_KEYS
    if unknown:
        raise EngineMisconfigured(f"the seccomp profile uses {sorted(unknown)}, which is not supported")
    action = _action(entry["action"], entry.get("errnoRet"))
    if action == default:
        return  # libseccomp takes no rule that says the same as its default
    comparisons = [
        Comparison(arg["index"], COMPARISONS[arg["op"]], arg["value"], arg["valueTwo"])
        for arg in entry.get("args", ())
    ]
    array = (Comparison * len(comparisons))(*comparisons)
    for name in entry["names"]:
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number < 0:
            continue  # another architecture's, or newer than this libseccomp
        result = library.seccomp_rule_add_array(context, action, number, len(comparisons), array)
        if result < 0:
            raise EngineMisconfigured(f"libseccomp refuses the rule for {name}: {os.strerror(-result)}")


def _action(name: str, errno: int | None) -> int:
    if name == "SCMP_ACT_ALLOW":
        return ALLOW
    if name == "SCMP_ACT_ERRNO":
        return ERRNO | (EPERM if errno is None else errno)
    raise EngineMisconfigured(f"the seccomp profile uses the action {name}, which is not supported")


def _export(library: ctypes.CDLL, context: int) -> bytes:
    descriptor = os.memfd_create("seccomp", os.MFD_CLOEXEC)
    try:
        result = library.seccomp_export_bpf(context, descriptor)
        if result < 0:
            raise EngineMisconfigured(f"libseccomp could not write the filter: {os.strerror(-result)}")
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    finally:
        os.close(descriptor)
