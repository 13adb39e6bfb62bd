"""The transactions of a log that keep readers of committed records waiting. Pure.

A record is unstable while its transaction is open, and after that until the marker that ended it is known to
be on all replicas in sync, that is, below the high watermark. Readers of committed records see what lies
before the first unstable offset.

Invariants: offsets only grow, so transactions are opened and ended in the order of their offsets; each
producer has at most one open. ``first_offset`` and ``marker_offset`` are kept, not searched for, because
every such read asks for them.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Final

NEVER: Final = 2**63 - 1
"""An offset that no log reaches: there is none such."""


class UnstableTransactions:
    """``first_offset`` is the first unstable offset, ``marker_offset`` that of the first marker which is not
    known to be replicated."""

    __slots__ = ("_ended", "_open", "first_offset", "marker_offset")

    def __init__(self, first_offsets: Iterable[int] = ()) -> None:
        """Begin with open transactions, in any order."""
        self._open: OrderedDict[int, None] = OrderedDict.fromkeys(sorted(first_offsets))
        self._ended: deque[tuple[int, int]] = deque()
        self.first_offset = next(iter(self._open), NEVER)
        self.marker_offset = NEVER

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    def begin(self, first_offset: int) -> None:
        self._open[first_offset] = None
        self.first_offset = min(self.first_offset, first_offset)

    def end(self, first_offset: int, marker_offset: int) -> int:
        """Note the marker of a transaction; give the last stable offset behind it, replication aside."""
        self._open.pop(first_offset, None)
        self._ended.append((first_offset, marker_offset))
        self.marker_offset = min(self.marker_offset, marker_offset)
        return next(iter(self._open), marker_offset + 1)

    def replicated(self, high_watermark: int) -> None:
        """All below this offset is on every replica in sync."""
        ended = self._ended
        while ended and ended[0][1] < high_watermark:
            ended.popleft()
        self.marker_offset = ended[0][1] if ended else NEVER
        self.first_offset = min(next(iter(self._open), NEVER), min((one[0] for one in ended), default=NEVER))

    def last_stable_offset(self, high_watermark: int, log_start_offset: int) -> int:
        """Up to here nothing is unstable; never above the high watermark."""
        if self.marker_offset < high_watermark:
            self.replicated(high_watermark)
        if self.first_offset < high_watermark:
            return max(self.first_offset, log_start_offset)
        return high_watermark
