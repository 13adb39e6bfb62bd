"""The broker's process: its limit on open files, and objects that the garbage collector skips.

A full collection visits every tracked object with all threads stopped: some 350 ms in a broker with 24,000
partitions. Frozen objects are skipped. They are still freed by reference counting, but not as parts of a
cycle, so they are unfrozen once many partitions have been removed.

Objects that are not frozen are visited, too. A request about thousands of partitions creates hundreds of
thousands that live until it is sent: with Python's thresholds they are visited again and again meanwhile.
"""

from __future__ import annotations

import gc
import resource
from typing import Final

STEP_PARTITIONS: Final = 1000
"""A collection visits this many partitions in some 15 ms."""

_YOUNG_GENERATIONS: Final = 1

COLLECTION_THRESHOLDS: Final = (10_000, 10, 10)
"""New objects before a collection of the youngest generation, and collections of one before that of the next:
a full one follows a million new objects (Python: 70,000), some 100 MB if all were garbage in cycles."""


class FrozenHeap:
    """Freezes a broker's objects as partitions are added."""

    def __init__(self) -> None:
        self._frozen_partitions = 0

    def freeze(self, partitions: int) -> None:
        """Freeze all current objects."""
        # Young objects may be garbage, which would never be freed.
        gc.collect(_YOUNG_GENERATIONS)
        gc.freeze()
        self._frozen_partitions = partitions

    def resized(self, partitions: int) -> None:
        """Freeze or unfreeze after a change of the number of partitions."""
        if partitions >= self._frozen_partitions + STEP_PARTITIONS:
            self.freeze(partitions)
        elif partitions <= self._frozen_partitions - STEP_PARTITIONS:
            gc.unfreeze()
            self._frozen_partitions = partitions


def collect_garbage_less_often() -> None:
    gc.set_threshold(*COLLECTION_THRESHOLDS)


def raise_open_file_limit() -> int:
    """Raise the soft limit on open files to the hard limit; return the effective limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError):
        return soft
    return hard
