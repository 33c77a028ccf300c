import os
import resource

from airlock_agent import hardening


def in_child(action) -> int:
    """The exit code of a forked child that runs `action`, which returns whether all is well."""
    pid = os.fork()
    if pid == 0:
        ok = False
        try:
            ok = action()
        finally:
            os._exit(0 if ok else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_rlimits_are_parsed_by_name():
    expected = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_NOFILE, 64)]
    assert hardening.parse_rlimits("core=0,nofile=64") == expected
    assert hardening.parse_rlimits("") == []


def test_rlimits_are_set_hard():
    def action() -> bool:
        hardening.set_rlimits([(resource.RLIMIT_NOFILE, 64), (resource.RLIMIT_CORE, 0)])
        return resource.getrlimit(resource.RLIMIT_NOFILE) == (64, 64)

    assert in_child(action) == 0


def test_a_process_that_is_not_dumpable_closes_its_proc_files():
    def action() -> bool:
        os.setresuid(65534, 65534, 65534) if os.geteuid() == 0 else None
        hardening.set_dumpable(True)
        before = os.access("/proc/self/fd", os.R_OK)
        hardening.set_dumpable(False)
        return before and os.stat("/proc/self/fd").st_uid == 0

    assert in_child(action) == 0


def test_only_stdio_is_left_open():
    def action() -> bool:
        os.open("/dev/null", os.O_RDONLY)
        hardening.close_all_but_stdio()
        return os.open("/dev/null", os.O_RDONLY) == 3

    assert in_child(action) == 0
