"""Where requests wait for something to happen or for their time to run out.

An operation is tried at once; if it cannot be completed it is watched under some keys (a partition, a
group) and given a deadline on the wheel. Whoever changes what a key stands for calls ``check_and_complete``,
which tries the operations watched there again. The deadline ends an operation the same way a fulfilled
condition does; ``on_expiration`` comes after that and only counts.

Invariants: ``on_complete`` runs exactly once for every operation that was watched; a completed operation is
on no wheel. Operations that have ended but are still found under a key are swept out once they outnumber
both ``purge_interval`` and those still waiting, so sweeping costs each operation a constant.

All runs on one event loop: nothing can change between the first try and the watching, so there is no second
try in between, as threads would need.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable
from typing import Final

from odradek.timers.timing_wheel import Timer, TimingWheel

PURGE_INTERVAL: Final = 1000


class DelayedOperation(Timer, ABC):
    """Something to be answered later. It is its own timer, so that waiting makes no further objects."""

    __slots__ = ("_purgatory", "_watches", "completed")

    def __init__(self) -> None:
        super().__init__()
        self.completed = False
        self._purgatory: DelayedOperationPurgatory | None = None
        self._watches = 0

    @abstractmethod
    def try_complete(self) -> bool:
        """Look whether the condition holds; if so call ``force_complete`` and give what that gives."""

    @abstractmethod
    def on_complete(self) -> None:
        """Answer. Runs once, whether the condition came to hold or the time ran out."""

    def on_expiration(self) -> None:
        """Runs after ``on_complete`` if the deadline was what ended the operation."""

    def force_complete(self) -> bool:
        """End the operation now; False if it had ended before."""
        if self.completed:
            return False
        self.completed = True
        self.cancel()
        purgatory = self._purgatory
        if purgatory is not None:
            purgatory._delayed -= 1
            purgatory._ended += self._watches
        self.on_complete()
        return True

    def fire(self) -> None:
        if self.force_complete():
            self.on_expiration()


class DelayedOperationPurgatory:
    """Operations under the keys they wait for."""

    __slots__ = ("_delayed", "_ended", "_watched", "_watchers", "_wheel", "name", "purge_interval")

    def __init__(self, name: str, wheel: TimingWheel, purge_interval: int = PURGE_INTERVAL) -> None:
        self.name = name
        self.purge_interval = purge_interval
        self._wheel = wheel
        self._watchers: dict[Hashable, list[DelayedOperation]] = {}
        self._watched = 0
        self._ended = 0
        self._delayed = 0

    @property
    def watched(self) -> int:
        """Entries under keys: an operation under three keys counts three times, until it is swept out."""
        return self._watched

    @property
    def delayed(self) -> int:
        """Operations still waiting."""
        return self._delayed

    def try_complete_else_watch(
        self, operation: DelayedOperation, keys: Collection[Hashable], deadline_ms: int
    ) -> bool:
        """Complete the operation now if it can be; else wait for one of ``keys`` or the deadline.

        Without keys it waits for its deadline only. A deadline that has passed ends it at the wheel's next
        advance.
        """
        if operation.try_complete():
            return True
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
        if self._ended > self.purge_interval and 2 * self._ended >= self._watched:
            self.purge()
        return False

    def check_and_complete(self, key: Hashable) -> int:
        """Try the operations under ``key`` again; give how many this completed.

        Completing one may watch others, or come back here for the same key: each call goes over a copy and
        sweeps what has ended from the one list. If a try raises, all the others keep waiting.
        """
        waiting = self._watchers.get(key)
        if waiting is None:
            return 0
        count = 0
        for operation in waiting[:]:
            if not operation.completed and operation.try_complete():
                count += 1
        self._sweep(key, waiting)
        return count

    def complete_all(self) -> int:
        """End everything that waits, as a deadline would; give how many. For a stop."""
        waiting = {id(one): one for each in self._watchers.values() for one in each}
        return sum(operation.force_complete() for operation in waiting.values())

    def purge(self) -> None:
        """Let go of operations that have ended and are still found under a key."""
        for key, waiting in list(self._watchers.items()):
            self._sweep(key, waiting)

    def _sweep(self, key: Hashable, waiting: list[DelayedOperation]) -> None:
        before = len(waiting)
        waiting[:] = [operation for operation in waiting if not operation.completed]
        swept = before - len(waiting)
        if swept:
            self._watched -= swept
            self._ended -= swept
            if not waiting:
                del self._watchers[key]
