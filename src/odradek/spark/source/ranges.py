"""Ranges of offsets: what a task of Spark reads."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql.datasource import InputPartition


class Range(NamedTuple):
    """The offsets from ``start`` up to, and without, ``end``."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def offset_count(self) -> int:
        """Offsets in the range; records may be fewer, as compaction and transactions leave gaps."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start}, {self.end})"


class OffsetRangesPartition(InputPartition):
    """The ranges of one task, as Spark hands them to it."""

    def __init__(self, ranges: tuple[Range, ...]) -> None:
        super().__init__(ranges)
        self.ranges = ranges
