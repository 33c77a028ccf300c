"""What is kept of a program's output: the head at once, the tail at the end, and a count of everything."""

from __future__ import annotations


class Clip:
    """One stream. The program is never held up: what is neither head nor tail is counted and dropped."""

    def __init__(self, head: int, tail: int) -> None:
        self.total = 0
        self._head = head
        self._tail_size = tail
        self._tail = bytearray()

    def feed(self, data: bytes) -> tuple[int, bytes]:
        """The part of `data` that is to be passed on now, and its offset."""
        offset = self.total
        self.total += len(data)
        now = data[: max(0, self._head - offset)]
        self._tail += data[len(now) :]
        if len(self._tail) > 2 * self._tail_size:  # not at every byte over, so that a flood stays cheap
            del self._tail[: len(self._tail) - self._tail_size]
        return offset, now

    def finish(self) -> tuple[int, bytes]:
        """The tail and its offset."""
        tail = bytes(self._tail[max(0, len(self._tail) - self._tail_size) :])
        return self.total - len(tail), tail
