"""What a service keeps of the sandboxes that it started: complaints are logged, dead monitors are reaped."""

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress

from airlock.engines.bubblewrap.launch import Started

MAX_COMPLAINTS = 8 << 10
"""How much of an agent's stderr goes to the log. An agent at its wits' end may repeat itself."""

log = logging.getLogger(__name__)


class Watch:
    def __init__(self) -> None:
        self._room: dict[int, int] = {}
        """The descriptors that are watched, and how many bytes of each may still be logged."""

    def add(self, sandbox_id: str, started: Started) -> None:
        """Takes over the monitor and the descriptor of what `launch` started."""
        pid = started.monitor.pid
        ended = os.pidfd_open(pid)
        self._follow(ended, 0, lambda: self._reap(ended, pid))
        self._follow(started.stderr, MAX_COMPLAINTS, lambda: self._log(started.stderr, sandbox_id))

    def close(self) -> None:
        """The sandboxes live on; whoever becomes their monitors' parent will reap them."""
        for descriptor in list(self._room):
            self._forget(descriptor)

    def _follow(self, descriptor: int, room: int, on_readable: Callable[[], None]) -> None:
        self._room[descriptor] = room
        asyncio.get_running_loop().add_reader(descriptor, on_readable)

    def _forget(self, descriptor: int) -> None:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)
        del self._room[descriptor]

    def _reap(self, descriptor: int, pid: int) -> None:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        self._forget(descriptor)

    def _log(self, descriptor: int, sandbox_id: str) -> None:
        data = os.read(descriptor, MAX_COMPLAINTS)
        if not data:
            self._forget(descriptor)
        elif room := self._room[descriptor]:
            log.warning("sandbox %s: the agent complains: %r", sandbox_id, data[:room])
            self._room[descriptor] = max(0, room - len(data))
