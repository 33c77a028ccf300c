"""One program: its birth, its pipes, its time, its end."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from selectors import EVENT_READ, EVENT_WRITE, BaseSelector

from airlock_agent import cgroup, hardening, workspace
from airlock_agent.output import Clip

_READ_SIZE = 1 << 16
_STREAMS = {1: "stdout", 2: "stderr"}


class Become(BaseException):
    """Raised in a forked child: unwind everything, and let the interpreter run `main.py`."""


class Launch:
    """What to run. `argv` is None for Python code that a fork of this interpreter can run."""

    def __init__(
        self,
        argv: Sequence[str] | None,
        args: Sequence[str],
        folder: str,
        env: Mapping[str, str],
        rlimits: list[tuple[int, int]],
    ) -> None:
        self.argv = argv
        self.args = args
        self.folder = folder
        self.env = env
        self.rlimits = rlimits

    def run(self, stdio: Sequence[int]) -> None:
        """Turn this process, a fresh fork of the agent, into the program. Does not return."""
        try:
            os.setsid()
            for target, descriptor in enumerate(stdio):
                os.dup2(descriptor, target)
            hardening.close_all_but_stdio()
            hardening.set_rlimits(self.rlimits)
            hardening.set_dumpable(True)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.chdir(self.folder)
            os.environ.clear()
            os.environ.update(self.env)
            if self.argv is not None:
                self._exec(self.argv)
        except BaseException as error:  # nothing of the agent may go on in this process
            os.write(2, f"airlock: can't start: {error}\n".encode())
            os._exit(126)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.argv[1:] = self.args
        if hasattr(sys, "orig_argv"):
            sys.orig_argv[2:] = self.args
        raise Become

    def _exec(self, argv: Sequence[str]) -> None:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores these two; programs don't expect that
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        try:
            os.execvp(argv[0], [*argv, *self.args])
        except (FileNotFoundError, ValueError):  # a ValueError is an empty name
            code, reason = 127, "command not found"
        except OSError as error:
            code, reason = 126, str(error.strerror)
        os.write(2, f"{argv[0]}: {reason}\n".encode("utf-8", "surrogateescape"))
        os._exit(code)


class Process:
    """A running program, and then what is known of its end."""

    def __init__(
        self,
        name: str,
        launch: Launch,
        clips: Mapping[str, Clip],
        selector: BaseSelector,
        on_output: Callable[[str, int, bytes], None],
    ) -> None:
        self.name = name
        self.clips = clips
        self.reason: str | None = None
        self.status: int | None = None
        self.cpu_seconds = 0.0
        self._peak_rss = 0
        self._selector = selector
        self._on_output = on_output
        self._oom_before = cgroup.oom_kills()
        self._peak_before = cgroup.peak_memory()
        self._input = bytearray()
        self._input_closing = False
        self._input_waiting = False
        self._fork(launch)

    def _fork(self, launch: Launch) -> None:
        pipes = [os.pipe() for _ in range(3)]
        theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
        try:
            self.pid = os.fork()
        except OSError as error:
            for descriptor in (*pipes[0], *pipes[1], *pipes[2]):
                os.close(descriptor)
            raise workspace.WorkspaceError("SANDBOX_FAILED", f"can't fork: {error.strerror}") from error
        if self.pid == 0:
            self._selector.close()  # or its object would close whatever has this number when it is collected
            launch.run(theirs)
        self.started = time.monotonic()
        for descriptor in theirs:
            os.close(descriptor)
        self._stdin = pipes[0][1]
        os.set_blocking(self._stdin, False)
        self._outputs = {pipes[number][0]: name for number, name in _STREAMS.items()}
        for descriptor in self._outputs:
            os.set_blocking(descriptor, False)
            self._selector.register(descriptor, EVENT_READ, lambda _mask, d=descriptor: self._read(d))

    # Its streams.

    def _read(self, descriptor: int) -> bool:
        """Take what is there. Whether there may be more."""
        try:
            data = os.read(descriptor, _READ_SIZE)
        except BlockingIOError:
            return False
        stream = self._outputs[descriptor]
        if not data:
            self._selector.unregister(descriptor)
            os.close(descriptor)
            del self._outputs[descriptor]
            return False
        offset, now = self.clips[stream].feed(data)
        if now:
            self._on_output(stream, offset, now)
        return True

    def write_stdin(self, data: bytes) -> None:
        if self._stdin >= 0 and not self._input_closing:
            self._input += data
            self._flush_stdin()

    def close_stdin(self) -> None:
        self._input_closing = True
        self._flush_stdin()

    def _flush_stdin(self, _mask: int = EVENT_WRITE) -> None:
        if self._stdin < 0:
            return
        try:
            while self._input:
                del self._input[: os.write(self._stdin, self._input[:_READ_SIZE])]
        except BlockingIOError:
            pass
        except OSError:  # the program has closed its stdin
            self._input.clear()
            self._input_closing = True
        if bool(self._input) != self._input_waiting:
            self._input_waiting = not self._input_waiting
            if self._input_waiting:
                self._selector.register(self._stdin, EVENT_WRITE, self._flush_stdin)
            else:
                self._selector.unregister(self._stdin)
        if self._input_closing and not self._input:
            os.close(self._stdin)
            self._stdin = -1

    # Its end.

    def signal(self, number: int) -> None:
        if self.status is None:
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                pass  # it has ended, and SIGCHLD is on its way

    def account(self, rusage: resource.struct_rusage) -> None:
        """Add what a process of this program has used, now that it has been reaped."""
        self.cpu_seconds += rusage.ru_utime + rusage.ru_stime
        self._peak_rss = max(self._peak_rss, rusage.ru_maxrss * 1024)

    def finish(self) -> None:
        """Everything that could write has ended: take the last of the output and let go of the pipes."""
        for descriptor in list(self._outputs):
            while self._read(descriptor):
                pass
        for descriptor in list(self._outputs):
            self._selector.unregister(descriptor)
            os.close(descriptor)
        self._input.clear()
        self.close_stdin()
        failed = self.status != 0
        if self.reason is None and failed and (cgroup.oom_kills() or 0) > (self._oom_before or 0):
            self.reason = "oom_killed"
        if self.reason is None and failed and workspace.is_full():
            self.reason = "disk_full"

    @property
    def peak_memory(self) -> int:
        """The cgroup's peak, of all processes at once; if this run did not raise it, its largest process."""
        peak = cgroup.peak_memory()
        if peak is not None and peak > (self._peak_before or 0):
            return peak
        return self._peak_rss
