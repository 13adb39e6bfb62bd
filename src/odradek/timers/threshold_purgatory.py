"""Purgatory for operations that wait until a value behind a key reaches a threshold, such as an offset.

The operations under a key are kept in the order of their thresholds. When the value grows, only those that it
has reached are tried: a change costs nothing for the others, however many wait.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Mapping
from typing import TypeVar

from odradek.timers.purgatory import PURGE_INTERVAL, DelayedOperation, DelayedOperationPurgatory
from odradek.timers.timing_wheel import TimingWheel

Key = TypeVar("Key", bound=Hashable)


class ThresholdPurgatory(DelayedOperationPurgatory):
    """Delayed operations by key, in the order of their thresholds."""

    __slots__ = ("_thresholds",)

    def __init__(self, name: str, wheel: TimingWheel, purge_interval: int = PURGE_INTERVAL) -> None:
        super().__init__(name, wheel, purge_interval)
        self._thresholds: dict[Hashable, list[int]] = {}
        """Thresholds of the operations in ``_watchers``, in the same order."""

    def delay(self, operation: DelayedOperation, thresholds: Mapping[Key, int], deadline_ms: int) -> bool:
        """Complete the operation now if possible, else watch the keys of ``thresholds``.

        Thresholds mostly come in order: an append has a higher offset than the one before.
        """
        if self.try_complete_else_watch(operation, thresholds, deadline_ms):
            return True
        for key, threshold in thresholds.items():
            ordered = self._thresholds.setdefault(key, [])
            if ordered and ordered[-1] > threshold:
                at, waiting = bisect_right(ordered, threshold), self._watchers[key]
                ordered.insert(at, threshold)
                waiting.insert(at, waiting.pop())
            else:
                ordered.append(threshold)
        return False

    def check_reached(self, key: Hashable, value: int) -> int:
        """Try the operations under ``key`` whose thresholds the value has reached; return how many completed.

        Completing an operation may watch others, or re-enter for the same key.
        """
        ordered = self._thresholds.get(key)
        if not ordered or ordered[0] > value:
            return 0
        count = 0
        for operation in self._watchers[key][: bisect_right(ordered, value)]:
            if not operation.completed and operation.try_complete():
                count += 1
        waiting = self._watchers.get(key)
        if waiting is not None:
            self._purge_first(key, waiting, bisect_right(self._thresholds[key], value))
        return count

    def _purge_key(self, key: Hashable, waiting: list[DelayedOperation]) -> None:
        self._purge_first(key, waiting, len(waiting))

    def _purge_first(self, key: Hashable, waiting: list[DelayedOperation], count: int) -> None:
        """Remove those of the first operations that are completed."""
        if not count:  # perhaps emptied, and the key removed, while an operation completed
            return
        ordered = self._thresholds[key]
        kept = [number for number in range(count) if not waiting[number].completed]
        purged = count - len(kept)
        if purged:
            waiting[:count] = [waiting[number] for number in kept]
            ordered[:count] = [ordered[number] for number in kept]
            self._watched -= purged
            self._completed -= purged
            if not waiting:
                del self._watchers[key], self._thresholds[key]
