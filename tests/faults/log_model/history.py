"""The model of a log: a list of records.

``History`` is everything appended, in order, with truncations applied. A log has the part of it from its
start to its end offset. After a crash it may end earlier, never before what was flushed, and never has
anything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Written(NamedTuple):
    """A record as it must be read back."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    leader_epoch: int


class WrittenBatch(NamedTuple):
    """Records appended together, and their producer id (-1: none)."""

    records: tuple[Written, ...]
    next_offset: int
    producer_id: int = -1
    base_sequence: int = -1
    count: int = 0  # type: ignore[assignment]  # hides tuple.count
    """Records at the time of the append; compaction may have removed some."""

    @property
    def first_offset(self) -> int:
        return self.next_offset - self.count


@dataclass
class History:
    """Batches in order, the log's start and end, and what a power failure must keep."""

    batches: list[WrittenBatch] = field(default_factory=list)
    start: int = 0
    end: int = 0
    batches_end: int = 0
    """Lower bound of the end after a restart: below ``end`` after a truncation inside a batch."""
    high_watermark: int = 0
    flushed: int = 0
    """Lower bound of the log end offset after any failure."""
    start_kept: int = 0
    """Lower bound of the log start offset after any failure."""
    start_max: int = 0
    """The largest log start offset so far: leader epochs before it may be dropped."""
    undone: list[tuple[list[WrittenBatch], int]] = field(default_factory=list)
    """Batches removed by truncations that may not be durable yet, and their offsets."""

    def records(self, start: int, end: int) -> list[Written]:
        """Return the records of a range."""
        return records_of(self.batches, start, end)

    def shown(self) -> list[Written]:
        """Return what a reader must get."""
        return self.records(self.start, self.end)

    def append(self, batch: WrittenBatch) -> None:
        self.batches.append(batch)
        self.end = self.batches_end = batch.next_offset

    def cut(self, offset: int) -> None:
        """Truncate to ``offset``, removing the batch that contains it."""
        self.batches = [batch for batch in self.batches if batch.next_offset <= offset]
        self.batches_end = max((batch.next_offset for batch in self.batches), default=0)
        self.end = offset
        self.start = min(self.start, offset)
        self.flushed = min(self.flushed, self.batches_end)
        self.high_watermark = min(self.high_watermark, offset)

    def begin_at(self, offset: int) -> None:
        """Remove everything."""
        self.batches, self.undone = [], []
        self.start = self.end = self.high_watermark = self.flushed = self.start_kept = offset
        self.batches_end = offset

    def synced(self, from_offset: int) -> None:
        """Note that everything from the segment with ``from_offset`` on is flushed."""
        self.flushed = self.batches_end
        self.undone = [entry for entry in self.undone if entry[1] < from_offset]

    def last_batches(self) -> dict[int, WrittenBatch]:
        """Return each producer's last complete batch."""
        there = [batch for batch in self.batches if batch.producer_id >= 0]
        last = {batch.producer_id: batch for batch in there}
        return {key: batch for key, batch in last.items() if batch.first_offset >= self.start}


def records_of(batches: Iterable[WrittenBatch], start: int, end: int) -> list[Written]:
    return [record for batch in batches for record in batch.records if start <= record.offset < end]


def first_not_older(records: Sequence[Written], timestamp: int) -> tuple[int, int] | None:
    """Return timestamp and offset of the first record that is not older."""
    for record in records:
        if record.timestamp >= timestamp:
            return record.timestamp, record.offset
    return None


def latest_by_key(records: Iterable[Written]) -> dict[bytes | None, Written]:
    """Return the last record of each key."""
    return {record.key: record for record in records}
