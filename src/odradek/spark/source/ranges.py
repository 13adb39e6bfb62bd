"""Offset ranges, and the InputPartition that carries them to a task."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql.datasource import InputPartition


class OffsetRange(NamedTuple):
    """Offsets of a partition, from ``start`` (inclusive) to ``end`` (exclusive)."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def offset_count(self) -> int:
        """Offsets in the range; there may be fewer records, as compaction and transactions leave gaps."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start}, {self.end})"


class OffsetRangesPartition(InputPartition):
    """InputPartition with the ranges of one task."""

    def __init__(self, ranges: tuple[OffsetRange, ...]) -> None:
        super().__init__(ranges)
        self.ranges = ranges
