"""Transactions that determine the last stable offset of a log. Pure.

A record is unstable while its transaction is open, and then until the marker is replicated, that is, below
the high watermark. READ_COMMITTED consumers read up to the first unstable offset.

Invariants: transactions start and end in offset order; each producer has at most one open.
``first_unstable_offset`` and ``marker_offset`` are stored because every READ_COMMITTED fetch uses them.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Final

NEVER: Final = 2**63 - 1
"""Offset that no log reaches; stands for no transaction."""


class UnstableTransactions:
    """Open and unreplicated transactions. ``marker_offset`` is the first unreplicated marker."""

    __slots__ = ("_ended", "_open", "first_unstable_offset", "marker_offset")

    def __init__(self, first_offsets: Iterable[int] = ()) -> None:
        """Start with the given open transactions, in any order."""
        self._open: OrderedDict[int, None] = OrderedDict.fromkeys(sorted(first_offsets))
        self._ended: deque[tuple[int, int]] = deque()
        self.first_unstable_offset = next(iter(self._open), NEVER)
        self.marker_offset = NEVER

    def __len__(self) -> int:
        """Return the number of open transactions."""
        return len(self._open)

    def begin(self, first_offset: int) -> None:
        self._open[first_offset] = None
        self.first_unstable_offset = min(self.first_unstable_offset, first_offset)

    def end(self, first_offset: int, marker_offset: int) -> int:
        """Record the marker of a transaction; return the last stable offset once it is replicated."""
        self._open.pop(first_offset, None)
        self._ended.append((first_offset, marker_offset))
        self.marker_offset = min(self.marker_offset, marker_offset)
        return next(iter(self._open), marker_offset + 1)

    def remove_replicated(self, high_watermark: int) -> None:
        """Remove ended transactions whose markers are below the high watermark."""
        ended = self._ended
        while ended and ended[0][1] < high_watermark:
            ended.popleft()
        self.marker_offset = ended[0][1] if ended else NEVER
        self.first_unstable_offset = min(
            next(iter(self._open), NEVER), min((first_offset for first_offset, _ in ended), default=NEVER)
        )

    def last_stable_offset(self, high_watermark: int, log_start_offset: int) -> int:
        """Return the last stable offset."""
        if self.marker_offset < high_watermark:
            self.remove_replicated(high_watermark)
        if self.first_unstable_offset < high_watermark:
            return max(self.first_unstable_offset, log_start_offset)
        return high_watermark
