"""A fetch that waits until there is enough to read, or its time is up."""

from __future__ import annotations

from collections.abc import Callable

from odradek.timers.purgatory import DelayedOperation


class DelayedFetch(DelayedOperation):
    """``enough`` looks again at the partitions that changed; ``then`` answers with what is there."""

    __slots__ = ("_enough", "_then")

    def __init__(self, enough: Callable[[], bool], then: Callable[[], None]) -> None:
        super().__init__()
        self._enough = enough
        self._then = then

    def try_complete(self) -> bool:
        return self._enough() and self.force_complete()

    def on_complete(self) -> None:
        self._then()
