"""The garbage collector's share of the heap: partitions live long, and need not be gone over again and again.

A full collection visits every object that it tracks, with all threads stopped: some 350 ms in a broker with
24,000 partitions. Frozen objects are left out. They are still freed when their last reference goes, but not
as parts of a cycle, so that they are tracked again once many partitions are gone.
"""

from __future__ import annotations

import gc
from typing import Final

STEP_PARTITIONS: Final = 1000
"""As many partitions are gone over within some 15 ms."""

_YOUNG_GENERATIONS: Final = 1


class FrozenHeap:
    """Freezes what a broker holds, as its partitions become more."""

    def __init__(self) -> None:
        self._frozen_partitions = 0

    def freeze(self, partitions: int) -> None:
        """Leave everything out that is there now."""
        # What is young may be garbage, which would stay for good.
        gc.collect(_YOUNG_GENERATIONS)
        gc.freeze()
        self._frozen_partitions = partitions

    def resized(self, partitions: int) -> None:
        """The broker holds so many partitions now."""
        if partitions >= self._frozen_partitions + STEP_PARTITIONS:
            self.freeze(partitions)
        elif partitions <= self._frozen_partitions - STEP_PARTITIONS:
            gc.unfreeze()
            self._frozen_partitions = partitions
