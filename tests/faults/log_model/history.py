"""What a log must hold, as a list of records: the simple model that a real log is compared with.

``History`` is all that was appended, in order, with cuts applied. A log shows the part of it from its start
to its end. After a crash it may show less of the end, never less than what was flushed, and never anything
else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Written(NamedTuple):
    """A record as it must be read."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    leader_epoch: int


class WrittenBatch(NamedTuple):
    """Records that were appended together, and who sent them (-1: nobody with an id)."""

    records: tuple[Written, ...]
    next_offset: int
    producer_id: int = -1
    base_sequence: int = -1
    count: int = 0
    """Records when it was appended; compaction may have taken some since."""

    @property
    def first_offset(self) -> int:
        return self.next_offset - self.count


@dataclass
class History:
    """Batches in order, where the log starts and ends, and what a loss of power must leave."""

    batches: list[WrittenBatch] = field(default_factory=list)
    start: int = 0
    end: int = 0
    high_watermark: int = 0
    flushed: int = 0
    """The log ends here or later, whatever happens."""
    start_kept: int = 0
    """The log starts here or later, whatever happens."""
    start_max: int = 0
    """The latest start there ever was: of what lies before it, epochs may be forgotten."""
    undone: list[tuple[list[WrittenBatch], int]] = field(default_factory=list)
    """What was there before cuts that may not be on the disk yet, and where they cut."""

    def records(self, start: int, end: int) -> list[Written]:
        """All records of a range."""
        return records_of(self.batches, start, end)

    def shown(self) -> list[Written]:
        """What a reader must get."""
        return self.records(self.start, self.end)

    def append(self, batch: WrittenBatch) -> None:
        self.batches.append(batch)
        self.end = batch.next_offset

    def cut(self, offset: int) -> None:
        """Forget what lies at ``offset``, which is the start of a batch, or later."""
        self.batches = [batch for batch in self.batches if batch.next_offset <= offset]
        self.end = offset
        self.start = min(self.start, offset)
        self.flushed = min(self.flushed, offset)
        self.high_watermark = min(self.high_watermark, offset)

    def begin_at(self, offset: int) -> None:
        """Forget everything."""
        self.batches, self.undone = [], []
        self.start = self.end = self.high_watermark = self.flushed = self.start_kept = offset

    def synced(self, from_offset: int) -> None:
        """All from the segment that holds ``from_offset`` on is on the disk."""
        self.flushed = self.end
        self.undone = [one for one in self.undone if one[1] < from_offset]

    def last_batches(self) -> dict[int, WrittenBatch]:
        """Each producer's last batch that is still there as a whole."""
        there = [batch for batch in self.batches if batch.producer_id >= 0]
        last = {batch.producer_id: batch for batch in there}
        return {key: one for key, one in last.items() if one.first_offset >= self.start}


def records_of(batches: Iterable[WrittenBatch], start: int, end: int) -> list[Written]:
    return [record for batch in batches for record in batch.records if start <= record.offset < end]


def first_not_older(records: Sequence[Written], timestamp: int) -> tuple[int, int] | None:
    """Timestamp and offset of the first record that is not older."""
    for record in records:
        if record.timestamp >= timestamp:
            return record.timestamp, record.offset
    return None


def latest_by_key(records: Iterable[Written]) -> dict[bytes | None, Written]:
    """The last record of each key."""
    return {record.key: record for record in records}
