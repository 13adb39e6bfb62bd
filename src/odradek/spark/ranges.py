"""A range of offsets of one partition: what one task of Spark reads."""

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


class RangePartition(InputPartition):
    """A range as Spark hands it to a task."""

    def __init__(self, range_: Range) -> None:
        super().__init__(range_)
        self.range = range_
