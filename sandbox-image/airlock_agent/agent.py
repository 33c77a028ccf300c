"""The agent's loop: calls come in as frames, programs are started, watched and ended, news goes out."""

from __future__ import annotations

import os
import selectors
import signal
import site
import sys
import time

from airlock_agent import PROTOCOL, hardening, interpreter, workspace
from airlock_agent.channel import Channel, ServiceGone
from airlock_agent.frames import MAX_EVENT_BODY, Frame, encode
from airlock_agent.languages import LANGUAGES
from airlock_agent.output import Clip
from airlock_agent.process import Become, Launch, Process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "GLIBC_", "HOME", "TZ")
"""Variables (or what they begin with) that an interpreter or its libraries read only when they start."""


def serve() -> None:
    """Be the agent as long as the sandbox lives. Returns only in a child that is to become the program."""
    try:
        hardening.set_dumpable(False)
        Agent().run()
    except Become:
        return
    except ServiceGone:
        os._exit(0)
    except BaseException:  # or `site` would go on, and PID 1 would run the caller's main.py
        import traceback  # noqa: PLC0415 - not before it is needed: it takes 4 ms

        traceback.print_exc()
    os._exit(70)


class Agent:
    def __init__(self) -> None:
        workspace.unlock()
        own = {"PYTHONPATH", "AIRLOCK_CHANNEL", "AIRLOCK_RLIMITS", "PWD"}
        self._env = {name: value for name, value in os.environ.items() if name not in own}
        self._rlimits = hardening.parse_rlimits(os.environ.get("AIRLOCK_RLIMITS", ""))
        self._selector = selectors.DefaultSelector()
        self._channel = Channel(os.environ["AIRLOCK_CHANNEL"], self._selector, self._on_frame)
        self._process: Process | None = None
        self._ceiling = 0
        self._script: workspace.Script | None = None
        self._timers: list[tuple[float, Callable[[], None]]] = []
        self._verbs: dict[str, Callable[[dict[str, Any], bytes], None]] = {
            "hello": self._hello,
            "write": self._write,
            "start": self._start,
            "stdin": self._stdin,
            "close_stdin": self._close_stdin,
            "signal": self._signal,
            "kill": self._kill,
        }

    def run(self) -> None:
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_read, False)
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # The kernel keeps signals from inside away from PID 1, but for those that it has a handler for.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        self._selector.register(wake_read, selectors.EVENT_READ, lambda _mask: os.read(wake_read, 4096))
        interpreter.settle()
        while True:
            for key, mask in self._selector.select(self._until_next_timer()):
                # A handler may have closed the descriptor of a later event of the same round.
                if self._selector.get_map().get(key.fd) == key:
                    key.data(mask)
            self._reap()
            self._run_timers()

    # Calls.

    def _on_frame(self, frame: Frame) -> None:
        header, body = frame
        error = None
        try:
            self._verbs[header["verb"]](header, body)
        except workspace.WorkspaceError as refusal:
            error = {"code": refusal.code, "message": refusal.message}
        if "ref" in header:
            reply = {"event": "reply", "ref": header["ref"]}
            self._send(reply if error is None else {**reply, "error": error})

    def _send(self, header: dict[str, Any], body: bytes = b"") -> None:
        self._channel.send(encode(header, body))

    def _hello(self, _header: dict[str, Any], _body: bytes) -> None:
        languages = [name for name, row in LANGUAGES.items() if workspace.installed(row.argv[0])]
        python = ".".join(map(str, sys.version_info[:3]))
        self._send({"event": "hello", "protocol": PROTOCOL, "python": python, "languages": languages})

    def _write(self, header: dict[str, Any], body: bytes) -> None:
        workspace.write(header["path"], body)

    def _start(self, header: dict[str, Any], body: bytes) -> None:
        if self._process is not None:
            raise workspace.WorkspaceError("CONFLICT", "a program is running in this sandbox already")
        folder = workspace.directory(header["cwd"])
        argv = header.get("argv")
        if argv is None:
            argv = self._lay_down(header, folder, body)
        launch = Launch(argv, header["args"], folder, {**self._env, **header["env"]}, self._rlimits)
        bounds = header["output"]
        clips = {stream: Clip(bounds["head"], bounds["tail"]) for stream in ("stdout", "stderr")}
        self._ceiling = bounds["ceiling"]
        self._process = Process(header["process"], launch, clips, self._selector, self._on_output)
        self._timers = [
            (self._process.started + header["timeout"], self._time_is_up),
            (self._process.started + header["timeout"] + header["grace"], self._kill_all),
        ]

    def _lay_down(self, header: dict[str, Any], folder: str, source: bytes) -> list[str] | None:
        """Save the code; the argv that runs it, or None where a fork of this interpreter will do."""
        language = LANGUAGES[header["language"]]
        unique = header["process"].rpartition("_")[2][:8]
        self._script = workspace.Script(folder, language.file, source, unique)
        as_started = folder == workspace.ROOT and self._script.name == sys.argv[0]
        if as_started and language.argv == ("python3",) and self._starts_alike(header["env"]):
            return None
        return [*language.argv, self._script.name]

    @staticmethod
    def _starts_alike(env: dict[str, str]) -> bool:
        """Whether an interpreter started now, with `env`, would come up as this one did."""
        return not any(name.startswith(_READ_AT_START) for name in env) and not os.path.isdir(
            site.getusersitepackages()
        )

    def _named(self, header: dict[str, Any]) -> Process | None:
        """The process that is meant; none if it has just ended, which the caller will hear anyway."""
        process = self._process
        return process if process is not None and process.name == header["process"] else None

    def _stdin(self, header: dict[str, Any], body: bytes) -> None:
        if process := self._named(header):
            process.write_stdin(body)

    def _close_stdin(self, header: dict[str, Any], _body: bytes) -> None:
        if process := self._named(header):
            process.close_stdin()

    def _signal(self, header: dict[str, Any], _body: bytes) -> None:
        if process := self._named(header):
            process.signal(header["signal"])

    def _kill(self, header: dict[str, Any], _body: bytes) -> None:
        if process := self._named(header):
            self._end(process, "killed")

    # News.

    def _on_output(self, stream: str, offset: int, data: bytes) -> None:
        assert self._process is not None
        for start in range(0, len(data), MAX_EVENT_BODY):
            part = data[start : start + MAX_EVENT_BODY]
            header = {"event": "output", "process": self._process.name, "stream": stream}
            self._send({**header, "offset": offset + start}, part)

    # Time and death.

    def _until_next_timer(self) -> float | None:
        if not self._timers:
            return None
        return max(0.0, min(when for when, _ in self._timers) - time.monotonic())

    def _run_timers(self) -> None:
        process = self._process
        if process is not None and sum(clip.total for clip in process.clips.values()) > self._ceiling:
            self._end(process, "output_limit")
        now = time.monotonic()
        due = [action for when, action in self._timers if when <= now]
        self._timers = [timer for timer in self._timers if timer[0] > now]
        for action in due:
            action()

    def _time_is_up(self) -> None:
        assert self._process is not None
        self._process.reason = self._process.reason or "timed_out"
        self._process.signal(signal.SIGTERM)

    def _end(self, process: Process, reason: str) -> None:
        process.reason = process.reason or reason
        self._kill_all()

    def _kill_all(self) -> None:
        """Every process of this PID namespace but ourselves: nothing that a program left can hide from it."""
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            pass  # we are alone

    def _reap(self) -> None:
        """Bury the dead. A program has ended when its first process has and all the others are gone too."""
        process = self._process
        while True:
            try:
                pid, status, rusage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                if process is not None:
                    self._finish(process)
                return
            if process is not None and pid:
                process.account(rusage)
                if pid == process.pid:
                    process.status = status
            if not pid:
                if process is not None and process.status is not None:
                    self._kill_all()
                return

    def _finish(self, process: Process) -> None:
        process.finish()
        for stream, clip in process.clips.items():
            self._on_output(stream, *clip.finish())
        if self._script is not None:
            self._script.remove()
        status = process.status
        assert status is not None
        self._send(
            {
                "event": "exit",
                "process": process.name,
                "code": None if os.WIFSIGNALED(status) else os.WEXITSTATUS(status),
                "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
                "reason": process.reason,
                "stdout": process.clips["stdout"].total,
                "stderr": process.clips["stderr"].total,
                "cpu_ms": round(process.cpu_seconds * 1000, 3),
                "peak_memory_bytes": process.peak_memory,
            }
        )
        self._process = self._script = None
        self._timers = []
