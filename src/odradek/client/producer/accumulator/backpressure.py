"""Slows down applications that append faster than the sender can drain.

A thread that appends without pause keeps the loop thread from running. So once more than ``high_bytes`` are
queued in full batches, ``send`` waits before it opens another batch, until no more than half of that is
queued. This is not ``buffer.memory``: when a broker accepts nothing at all, there is no backpressure, and
memory fills up as it should.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_HIGH_BYTES_MIN: Final = 1 << 20
_HIGH_BATCHES: Final = 4
STALL_TIMEOUT_S: Final = 0.05
"""Without a drain for this long the broker is the bottleneck, and ``buffer.memory`` the limit."""


class Backpressure:
    """Sends that wait for batches to be drained. Guarded by the accumulator's lock."""

    __slots__ = ("_stalled", "_waiting", "high_bytes")

    def __init__(self, memory_bytes: int, batch_bytes: int) -> None:
        self.high_bytes = min(memory_bytes // 2, max(_HIGH_BYTES_MIN, _HIGH_BATCHES * batch_bytes))
        self._stalled = False
        self._waiting: list[Callable[[], object]] = []

    def is_exceeded(self, queued_bytes: int) -> bool:
        return queued_bytes > self.high_bytes and not self._stalled

    def add_waiter(self, wake: Callable[[], object]) -> None:
        """Call ``wake`` once enough has been drained."""
        self._waiting.append(wake)

    def on_stall(self, wake: Callable[[], object]) -> None:
        """Remove a waiter that timed out, and stop the backpressure until something is drained."""
        if wake in self._waiting:
            self._waiting.remove(wake)
            self._stalled = True

    def on_drained(self, queued_bytes: int) -> None:
        """Wake all waiters once at most half is queued."""
        self._stalled = False
        if self._waiting and queued_bytes * 2 <= self.high_bytes:
            self.wake_all()

    def wake_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake()
