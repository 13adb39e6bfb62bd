"""Purgatory: delayed operations that wait for a condition or a deadline.

An operation is tried at once; if it cannot be completed it is watched under some keys (a partition, a group)
and gets a deadline on the timing wheel. Code that changes the state behind a key calls
``check_and_complete``, which tries the operations watched there again. The deadline completes an operation
like a fulfilled condition; ``on_expiration`` is called after that.

Invariants: ``on_complete`` runs exactly once for every watched operation; a completed operation is on no
wheel. Completed operations that are still under a key are purged once they outnumber both ``purge_interval``
and the waiting ones, so that purging has amortized constant cost per operation.

Everything runs on one event loop: nothing can change between the first try and the watching, so there is no
second try in between, as threads would need.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Sequence
from typing import Final

from odradek.compiled_modules import mypyc_attr
from odradek.timers.timing_wheel import Timer, TimingWheel

PURGE_INTERVAL: Final = 1000


@mypyc_attr(allow_interpreted_subclasses=True)
class DelayedOperation(Timer, ABC):
    """Operation that completes later. It is its own timer, so that waiting allocates nothing more."""

    __slots__ = ("_purgatory", "_watches", "completed")

    def __init__(self) -> None:
        super().__init__()
        self.completed = False
        self._purgatory: DelayedOperationPurgatory | None = None
        self._watches = 0

    @abstractmethod
    def try_complete(self) -> bool:
        """Check the condition; if it holds, return ``force_complete()``, else False."""

    def try_complete_after(self, key: Hashable) -> bool:
        """The same after a change behind one of the keys: the others are as they were."""
        return self.try_complete()

    @abstractmethod
    def on_complete(self) -> None:
        """Complete the operation. Called exactly once, by condition or by deadline."""

    def on_expiration(self) -> None:
        """Called after ``on_complete`` if the operation expired."""

    def force_complete(self) -> bool:
        """Complete the operation now; return False if it was completed before."""
        if self.completed:
            return False
        self.completed = True
        self.cancel()
        purgatory = self._purgatory
        if purgatory is not None:
            purgatory._delayed -= 1
            purgatory._completed += self._watches
        self.on_complete()
        return True

    def fire(self) -> None:
        if self.force_complete():
            self.on_expiration()


class DelayedOperationPurgatory:
    """Delayed operations by the keys they watch."""

    __slots__ = ("_completed", "_delayed", "_watched", "_watchers", "_wheel", "name", "purge_interval")

    def __init__(self, name: str, wheel: TimingWheel, purge_interval: int = PURGE_INTERVAL) -> None:
        self.name = name
        self.purge_interval = purge_interval
        self._wheel = wheel
        self._watchers: dict[Hashable, list[DelayedOperation]] = {}
        self._watched = 0
        self._completed = 0
        self._delayed = 0

    @property
    def watched(self) -> int:
        """Number of watch entries: an operation with three keys counts three times, until purged."""
        return self._watched

    @property
    def delayed(self) -> int:
        """Number of waiting operations."""
        return self._delayed

    def try_complete_else_watch(
        self, operation: DelayedOperation, keys: Collection[Hashable], deadline_ms: int
    ) -> bool:
        """Complete the operation now if possible, else watch ``keys`` until the deadline.

        Without keys it waits for its deadline only. A deadline in the past expires at the wheel's next
        advance.
        """
        if operation.try_complete():
            return True
        if self._completed > self.purge_interval and 2 * self._completed >= self._watched:
            self.purge()
        watchers = self._watchers
        for key in keys:
            waiting = watchers.get(key)
            if waiting is None:
                watchers[key] = [operation]
            else:
                waiting.append(operation)
        self._watched += len(keys)
        self._delayed += 1
        operation._watches = len(keys)
        operation._purgatory = self
        self._wheel.schedule(operation, deadline_ms)
        return False

    def watch(self, operation: DelayedOperation, key: Hashable) -> None:
        """Try an operation whenever ``key`` is checked, until ``unwatch``. It has no deadline."""
        self._watchers.setdefault(key, []).append(operation)

    def unwatch(self, operation: DelayedOperation, key: Hashable) -> None:
        waiting = self._watchers.get(key)
        if waiting is not None and operation in waiting:
            waiting.remove(operation)
            if not waiting:
                del self._watchers[key]

    def watching(self, key: Hashable) -> Sequence[DelayedOperation]:
        """Return the operations under ``key``, in the order in which they were added."""
        return self._watchers.get(key, ())

    def check_and_complete(self, key: Hashable) -> int:
        """Try the operations under ``key`` again; return how many were completed.

        Completing an operation may watch others, or re-enter for the same key: each call iterates over a copy
        and removes completed operations from the list. If a try raises, the others keep waiting.
        """
        waiting = self._watchers.get(key)
        if waiting is None:
            return 0
        count = 0
        for operation in waiting[:]:
            if not operation.completed and operation.try_complete_after(key):
                count += 1
        self._purge_key(key, waiting)
        return count

    def complete_all(self) -> int:
        """Complete all waiting operations; return how many. For shutdown."""
        waiting = {id(operation): operation for watched in self._watchers.values() for operation in watched}
        return sum(operation.force_complete() for operation in waiting.values())

    def purge(self) -> None:
        """Remove completed operations that are still under a key."""
        for key, waiting in list(self._watchers.items()):
            self._purge_key(key, waiting)

    def _purge_key(self, key: Hashable, waiting: list[DelayedOperation]) -> None:
        before = len(waiting)
        waiting[:] = [operation for operation in waiting if not operation.completed]
        purged = before - len(waiting)
        if purged:
            self._watched -= purged
            self._completed -= purged
            if not waiting:
                del self._watchers[key]
