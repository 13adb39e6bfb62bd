"""The last segment of a log, which grows.

It keeps its indexes in memory and writes them out with plain writes, in steps, at the latest when it is
sealed (a mapped file that is larger than its blocks ends the process when the disk is full). What a crash
takes from them, the scan of unflushed segments gives back. It remembers where its newest batches lie, so
that readers at the tail need no search.

Invariant: a failed append leaves the file and all numbers as they were before it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from odradek.log.segments.log_segment import LogSegment, SegmentContext, TimestampOffset
from odradek.log.segments.segment_format import (
    LOG,
    OFFSET_INDEX,
    OFFSETS,
    POSITION_MAX,
    RELATIVE_OFFSET_MAX,
    TIME_INDEX,
    TIMES,
    TRANSACTION_INDEX,
    Buffer,
    IndexBuilder,
    time_entries_before,
)
from odradek.log.segments.transaction_index import ENTRY_BYTES, AbortedTransaction, kept_before
from odradek.model.ids import NO_TIMESTAMP
from odradek.ports.files import File
from odradek.records.layout import BatchHeader

INDEX_STEP_BYTES: Final = 4096
"""Index bytes that wait in memory before they are written: one page."""

TAIL_BATCHES_MAX: Final = 512
"""Places of the newest batches that are remembered; half are forgotten when there are so many."""

_NEVER: Final = 2**63 - 1


class ActiveSegment(LogSegment):
    """The last segment of a log, once something is appended to it."""

    __slots__ = (
        "_aborted_here",
        "_aborted_written",
        "_created_ms",
        "_indexes",
        "_offsets_written",
        "_roll_ms",
        "_size_max",
        "_times_written",
        "log_file",
        "roll_above_ms",
        "tail_floor",
        "tail_offsets",
        "tail_positions",
    )

    def __init__(
        self, place: SegmentContext, base_offset: int, size: int, indexes: IndexBuilder, next_offset: int
    ) -> None:
        super().__init__(place, base_offset, size)
        self._indexes = indexes
        self._offsets_written = len(indexes.offsets)
        self._times_written = len(indexes.times)
        self.log_file = place.files.open(self.path(LOG))
        self._aborted_here: list[AbortedTransaction] = []
        self._aborted_written = 0
        self._created_ms = 0
        self._roll_ms = 0
        self._size_max = POSITION_MAX
        self.roll_above_ms = _NEVER
        self.tail_offsets = array("q")
        self.tail_positions = array("q")
        self.tail_floor = next_offset

    @classmethod
    def create(cls, place: SegmentContext, base_offset: int) -> ActiveSegment:
        """Begin a segment with empty files; what is left of one with this base offset is overwritten."""
        with suppress(FileNotFoundError):
            place.files.remove(place.path(base_offset, TRANSACTION_INDEX))
        for suffix in (LOG, OFFSET_INDEX, TIME_INDEX):
            file = place.files.open(place.path(base_offset, suffix), create=True)
            if file.size():
                file.truncate(0)
            file.close()
        return cls(place, base_offset, 0, place.builder(base_offset), base_offset)

    @classmethod
    def activate(cls, segment: LogSegment, next_offset: int) -> ActiveSegment:
        """Go on with a segment at rest."""
        indexes = segment.context.builder(segment.base_offset)
        indexes.load(segment.offset_index(), segment.time_index(), segment.size)
        indexes.max_timestamp, indexes.offset_of_max_timestamp, _ = segment.largest()
        aborted = list(segment.aborted())
        segment.close()
        active = cls(segment.context, segment.base_offset, segment.size, indexes, next_offset)
        active._aborted_here, active._aborted_written = aborted, len(aborted)
        if segment.has_unwritten:
            active._offsets_written = active._times_written = active._aborted_written = 0
        return active

    def file(self) -> File:
        return self.log_file

    def offset_index(self) -> Buffer:
        return self._indexes.offsets

    def time_index(self) -> Buffer:
        return self._indexes.times

    def position_before(self, offset: int) -> int:
        if offset < self.tail_floor:
            return super().position_before(offset)
        number = bisect_left(self.tail_offsets, offset)
        return self.tail_positions[number] if number < len(self.tail_positions) else self.size

    def largest(self) -> TimestampOffset:
        return TimestampOffset(self._indexes.max_timestamp, self._indexes.offset_of_max_timestamp)

    def aborted(self) -> list[AbortedTransaction]:
        return self._aborted_here

    @property
    def knows_aborted(self) -> bool:
        return True

    @property
    def is_timed(self) -> bool:
        return True

    def modified_ms(self) -> int:
        return self.context.files.modified_ms(self.path(LOG))

    def add_aborted(self, entry: AbortedTransaction) -> None:
        """Note a transaction whose abort marker was appended last. The file follows with the indexes."""
        self._aborted_here.append(entry)

    def rebuild_indexes(self) -> None:
        """In memory they are not lost to anything; one that points astray is taken from the file anew."""
        self._indexes = self.scan().indexes
        self._write_indexes_anew()

    # Growth.

    def append(self, data: Buffer, headers: Sequence[BatchHeader]) -> None:
        """Append batches that follow on what is there. ``OSError`` leaves all as it was, if it can."""
        position = self.size
        try:
            self.log_file.append(data)
        except OSError:
            self.log_file.truncate(position)
            raise
        if position == 0:
            self._count_age_from(headers[0][9])
        indexes, offsets, positions = self._indexes, self.tail_offsets, self.tail_positions
        for header in headers:
            size_bytes = header[2]
            last_offset = header[1] + header[7]
            indexes.add(last_offset, header[9], position, size_bytes)
            offsets.append(last_offset)
            positions.append(position)
            position += size_bytes
        self.size = position
        if len(offsets) >= TAIL_BATCHES_MAX:
            self._shorten_tail()

    def _shorten_tail(self) -> None:
        surplus = len(self.tail_offsets) - TAIL_BATCHES_MAX // 2
        self.tail_floor = self.tail_offsets[surplus - 1] + 1
        del self.tail_offsets[:surplus]
        del self.tail_positions[:surplus]
        if self._index_bytes_waiting() >= INDEX_STEP_BYTES:
            # The batches are in the log already. What cannot be written now waits for the next step, at the
            # latest for the seal, and there the failure is told.
            with suppress(OSError):
                self.write_indexes()

    def _index_bytes_waiting(self) -> int:
        indexes = self._indexes
        return len(indexes.offsets) - self._offsets_written + len(indexes.times) - self._times_written

    # When it ends.

    def set_bounds(self, size_bytes_max: int, roll_ms: int, now_ms: int) -> None:
        """How large and how old this segment may grow."""
        self._size_max = min(size_bytes_max, POSITION_MAX)
        self._roll_ms = roll_ms
        self._created_ms = now_ms
        if self.size:
            self._count_age_from(self.first_timestamp())

    def change_bounds(self, size_bytes_max: int, roll_ms: int) -> None:
        """The same, by other settings, for what has grown already."""
        if self.size and self.roll_above_ms >= 0:
            self.roll_above_ms += roll_ms - self._roll_ms
        self._size_max = min(size_bytes_max, POSITION_MAX)
        self._roll_ms = roll_ms

    def _count_age_from(self, timestamp: int) -> None:
        # Without timestamps every append has to ask the clock.
        self.roll_above_ms = timestamp + self._roll_ms if timestamp >= 0 else NO_TIMESTAMP - 1

    def has_room(self, size_bytes: int, last_offset: int) -> bool:
        """Whether an append would keep file, indexes and relative offsets within their bounds."""
        return (
            self.size + size_bytes <= self._size_max
            and not self._indexes.is_full
            and last_offset - self.base_offset <= RELATIVE_OFFSET_MAX
        )

    def is_too_old(self, max_timestamp: int, now_ms: int) -> bool:
        """Whether the segment has waited long enough: by timestamps if there are any, else by the clock."""
        if self.roll_above_ms >= 0:
            return max_timestamp > self.roll_above_ms
        return now_ms - self._created_ms > self._roll_ms

    # Indexes.

    def write_indexes(self) -> None:
        """Bring the index files up to what memory has."""
        if self._index_bytes_waiting():
            self._offsets_written = self._write_index(
                OFFSET_INDEX, self._indexes.offsets, self._offsets_written
            )
            self._times_written = self._write_index(TIME_INDEX, self._indexes.times, self._times_written)
        if len(self._aborted_here) != self._aborted_written:
            self.use_aborted(self._aborted_here)
            self._aborted_written = len(self._aborted_here)

    def _write_index(self, suffix: str, index: bytearray, written: int) -> int:
        file = self.context.files.open(self.path(suffix), create=True)
        try:
            if file.size() > written:
                file.truncate(written)
            file.write_at(written, bytes(memoryview(index)[written:]))
        finally:
            file.close()
        return len(index)

    def _shorten_indexes(self) -> None:
        """Cut the index files to what memory has. That needs no room, where writing them anew might."""
        self._offsets_written = self._shorten(OFFSET_INDEX, self._indexes.offsets, self._offsets_written)
        self._times_written = self._shorten(TIME_INDEX, self._indexes.times, self._times_written)

    def _shorten(self, suffix: str, index: bytearray, written: int) -> int:
        written = min(written, len(index))
        file = self.context.files.open(self.path(suffix), create=True)
        try:
            if file.size() > written:
                file.truncate(written)
        finally:
            file.close()
        return written

    def _shorten_aborted(self) -> None:
        kept = min(self._aborted_written, len(self._aborted_here))
        if kept == self._aborted_written:
            return
        path = self.path(TRANSACTION_INDEX)
        if kept:
            file = self.context.files.open(path)
            try:
                file.truncate(kept * ENTRY_BYTES)
            finally:
                file.close()
        else:
            self.context.files.remove(path)
        self._aborted_written = kept

    def _write_indexes_anew(self) -> None:
        self._offsets_written = self._write_index(OFFSET_INDEX, self._indexes.offsets, 0)
        self._times_written = self._write_index(TIME_INDEX, self._indexes.times, 0)

    def seal(self) -> LogSegment:
        """Put the segment to rest: indexes whole and on file, the largest timestamp their last entry."""
        self._indexes.add_largest_timestamp()
        self.write_indexes()
        sealed = LogSegment(self.context, self.base_offset, self.size)
        sealed._largest = self.largest()
        sealed._aborted = tuple(self._aborted_here)
        return sealed

    def seal_without_room(self) -> LogSegment:
        """Put the segment to rest with its indexes in memory only."""
        self._indexes.add_largest_timestamp()
        sealed = LogSegment(self.context, self.base_offset, self.size)
        sealed.use_without_room(self._indexes, self._aborted_here)
        return sealed

    def sync_log(self) -> None:
        """Bring the batches to the disk; indexes of a segment that is not sealed are not worth it. Waits."""
        self.log_file.sync()

    def close(self) -> None:
        self.log_file.close()

    # Cuts.

    def truncate(self, offset: int) -> None:
        """Drop the batch that holds ``offset`` and all after it."""
        position = self.position_before(offset)
        if position == self.size:
            self._forget_tail(offset)
            return
        self._aborted_here = kept_before(self._aborted_here, offset)
        self._shorten_aborted()
        relative = offset - self.base_offset
        indexes = self._indexes
        del indexes.offsets[(OFFSETS.floor(indexes.offsets, relative - 1) + 1) * OFFSETS.entry_bytes :]
        del indexes.times[time_entries_before(indexes.times, relative) * TIMES.entry_bytes :]
        self._shorten_indexes()
        self.log_file.truncate(position)
        self.size = position
        self._forget_tail(offset)
        self._find_largest_again()

    def _forget_tail(self, next_offset: int) -> None:
        kept = bisect_left(self.tail_positions, self.size)
        del self.tail_offsets[kept:]
        del self.tail_positions[kept:]
        if not kept:
            self.tail_floor = next_offset
        if not self.size:
            self.roll_above_ms = _NEVER

    def _find_largest_again(self) -> None:
        indexes = self._indexes
        entry = TIMES.last(indexes.times)
        timestamp, relative = entry or (NO_TIMESTAMP, 0)
        indexes.max_timestamp, indexes.offset_of_max_timestamp = timestamp, self.base_offset + relative
        near = OFFSETS.lookup(indexes.offsets, relative)
        for place in self.walk(near[1] if near else 0):
            if place.max_timestamp > indexes.max_timestamp:
                indexes.max_timestamp, indexes.offset_of_max_timestamp = (
                    place.max_timestamp,
                    place.last_offset,
                )
        last = OFFSETS.last(indexes.offsets)
        indexes.bytes_since_entry = self.size - (last[1] if last else 0)
        indexes.check_full()
