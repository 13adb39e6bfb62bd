"""Keeps a program that sends without pause from running away from the loop that carries its records off.

Records that wait in full batches are worth nothing until they leave, and a thread that only ever appends does
not let the loop's thread run. So once more than ``high_bytes`` wait, whoever opens the next batch waits until
no more than half of that does. That is not ``buffer.memory``, which bounds what one may lose: a broker that
takes nothing at all makes nobody wait here, and memory fills up as it should.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_HIGH_BYTES_MIN: Final = 1 << 20
_HIGH_BATCHES: Final = 4
STALL_S: Final = 0.05
"""Nothing left for so long: the broker is the reason, and ``buffer.memory`` bounds what waits for it."""


class Backpressure:
    """Who waits for records to leave. Guarded by the accumulator's lock."""

    __slots__ = ("_stalled", "_waiting", "high_bytes")

    def __init__(self, memory_bytes: int, batch_bytes: int) -> None:
        self.high_bytes = min(memory_bytes // 2, max(_HIGH_BYTES_MIN, _HIGH_BATCHES * batch_bytes))
        self._stalled = False
        self._waiting: list[Callable[[], object]] = []

    def is_too_fast(self, queued_bytes: int) -> bool:
        return queued_bytes > self.high_bytes and not self._stalled

    def wait(self, wake: Callable[[], object]) -> None:
        """Have this called once enough has left."""
        self._waiting.append(wake)

    def gave_up(self, wake: Callable[[], object]) -> None:
        """Nothing left in time: nobody waits until something does."""
        if wake in self._waiting:
            self._waiting.remove(wake)
            self._stalled = True

    def left(self, queued_bytes: int) -> None:
        """Records have left. With less than half waiting, all go on."""
        self._stalled = False
        if self._waiting and queued_bytes * 2 <= self.high_bytes:
            self.release()

    def release(self) -> None:
        waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake()
