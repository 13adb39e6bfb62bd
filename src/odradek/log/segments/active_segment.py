"""The active segment of a log, to which batches are appended.

Indexes are kept in memory and written with plain writes, in steps, at the latest when the segment is sealed:
a mapped sparse file would end the process with SIGBUS on a full disk. Index entries lost in a crash are
rebuilt by the recovery scan. The positions of the newest batches are cached: tail reads need no search.

Invariant: a failed append leaves the file and all counters unchanged.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from odradek.log.segments.log_segment import LogSegment, SegmentContext, TimestampOffset
from odradek.log.segments.offset_index import Entry, first_entry_from
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
from odradek.log.segments.transaction_index import ENTRY_BYTES, AbortedTransaction, entries_before
from odradek.model.ids import NO_TIMESTAMP
from odradek.ports.files import File
from odradek.records.layout import BatchHeader

INDEX_STEP_BYTES: Final = 4096
"""Index bytes buffered in memory before they are written: one page."""

TAIL_BATCHES_MAX: Final = 512
"""Positions of the newest batches that are cached; half are evicted when the cache is full."""

_NEVER: Final = 2**63 - 1


class ActiveSegment(LogSegment):
    """The last segment of a log, opened for appends."""

    __slots__ = (
        "_aborted_written",
        "_active_aborted",
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
        self, context: SegmentContext, base_offset: int, size: int, indexes: IndexBuilder, next_offset: int
    ) -> None:
        super().__init__(context, base_offset, size)
        self._indexes = indexes
        self._offsets_written = len(indexes.offsets)
        self._times_written = len(indexes.times)
        self.log_file = context.files.open(self.path(LOG))
        self._active_aborted: list[AbortedTransaction] = []
        self._aborted_written = 0
        self._created_ms = 0
        self._roll_ms = 0
        self._size_max = POSITION_MAX
        self.roll_above_ms = _NEVER
        self.tail_offsets = array("q")
        self.tail_positions = array("q")
        self.tail_floor = next_offset

    @classmethod
    def create(cls, context: SegmentContext, base_offset: int) -> ActiveSegment:
        """Create a segment with empty files, overwriting leftovers with the same base offset."""
        with suppress(FileNotFoundError):
            context.files.remove(context.path(base_offset, TRANSACTION_INDEX))
        for suffix in (LOG, OFFSET_INDEX, TIME_INDEX):
            file = context.files.open(context.path(base_offset, suffix), create=True)
            if file.size():
                file.truncate(0)
            file.close()
        return cls(context, base_offset, 0, context.builder(base_offset), base_offset)

    @classmethod
    def activate(cls, segment: LogSegment, next_offset: int) -> ActiveSegment:
        """Reopen a sealed segment for appends."""
        indexes = segment.context.builder(segment.base_offset)
        indexes.load(segment.offset_index(), segment.time_index(), segment.size)
        indexes.max_timestamp, indexes.offset_of_max_timestamp, _ = segment.max_timestamp_and_offset()
        aborted = list(segment.aborted())
        segment.close()
        active = cls(segment.context, segment.base_offset, segment.size, indexes, next_offset)
        active._active_aborted, active._aborted_written = aborted, len(aborted)
        if segment.has_unwritten:
            active._offsets_written = active._times_written = active._aborted_written = 0
        return active

    def file(self) -> File:
        return self.log_file

    def offset_index(self) -> Buffer:
        return self._indexes.offsets

    def time_index(self) -> Buffer:
        return self._indexes.times

    def _is_file_ready(self) -> bool:
        return True

    def _entry_before(self, offset: int) -> Entry | None:
        return OFFSETS.lookup(self._indexes.offsets, offset - self.base_offset)

    def _entry_from(self, position: int) -> Entry | None:
        return first_entry_from(self._indexes.offsets, position)

    def position_before(self, offset: int) -> int:
        if offset < self.tail_floor:
            return super().position_before(offset)
        number = bisect_left(self.tail_offsets, offset)
        return self.tail_positions[number] if number < len(self.tail_positions) else self.size

    def next_offset(self) -> int:
        return self.tail_offsets[-1] + 1 if self.tail_offsets else super().next_offset()

    def max_timestamp_and_offset(self) -> TimestampOffset:
        return TimestampOffset(self._indexes.max_timestamp, self._indexes.offset_of_max_timestamp)

    def aborted(self) -> list[AbortedTransaction]:
        return self._active_aborted

    @property
    def aborted_loaded(self) -> bool:
        return True

    @property
    def timestamps_loaded(self) -> bool:
        return True

    def modified_ms(self) -> int:
        return self.context.files.modified_ms(self.path(LOG))

    def add_aborted(self, entry: AbortedTransaction) -> None:
        """Add the transaction whose abort marker was just appended; written to disk with the indexes."""
        self._active_aborted.append(entry)

    def rebuild_indexes(self) -> None:
        """Rebuild the indexes from the log file, in memory and on disk."""
        self._indexes = self.scan().indexes
        self._rewrite_indexes()

    # Appends.

    def append(self, data: Buffer, headers: Sequence[BatchHeader]) -> None:
        """Append batches with increasing offsets. On ``OSError`` the file is truncated back."""
        position = self.size
        try:
            self.log_file.append(data)
        except OSError:
            self.log_file.truncate(position)
            raise
        if position == 0:
            self._set_first_timestamp(headers[0].max_timestamp)
        indexes, offsets, positions = self._indexes, self.tail_offsets, self.tail_positions
        for header in headers:
            size_bytes = header.size_bytes
            last_offset = header.base_offset + header.last_offset_delta
            indexes.add(last_offset, header.max_timestamp, position, size_bytes)
            offsets.append(last_offset)
            positions.append(position)
            position += size_bytes
        self.size = position
        if len(offsets) >= TAIL_BATCHES_MAX:
            self._trim_tail()

    def _trim_tail(self) -> None:
        surplus = len(self.tail_offsets) - TAIL_BATCHES_MAX // 2
        self.tail_floor = self.tail_offsets[surplus - 1] + 1
        del self.tail_offsets[:surplus]
        del self.tail_positions[:surplus]
        if self._pending_index_bytes() >= INDEX_STEP_BYTES:
            # The batches are in the log already. A failed index write is retried with the next step, at the
            # latest by seal(), which reports the failure.
            with suppress(OSError):
                self.write_indexes()

    def _pending_index_bytes(self) -> int:
        indexes = self._indexes
        return len(indexes.offsets) - self._offsets_written + len(indexes.times) - self._times_written

    # Roll conditions.

    def set_limits(self, size_bytes_max: int, roll_ms: int, now_ms: int) -> None:
        """Set the maximum size and age of this segment."""
        self._size_max = min(size_bytes_max, POSITION_MAX)
        self._roll_ms = roll_ms
        self._created_ms = now_ms
        if self.size:
            self._set_first_timestamp(self.first_timestamp())

    def update_limits(self, size_bytes_max: int, roll_ms: int) -> None:
        """Apply changed settings to a segment in use."""
        if self.size and self.roll_above_ms >= 0:
            self.roll_above_ms += roll_ms - self._roll_ms
        self._size_max = min(size_bytes_max, POSITION_MAX)
        self._roll_ms = roll_ms

    def _set_first_timestamp(self, timestamp: int) -> None:
        # Without timestamps every append has to check the clock.
        self.roll_above_ms = timestamp + self._roll_ms if timestamp >= 0 else NO_TIMESTAMP - 1

    def has_room(self, size_bytes: int, last_offset: int) -> bool:
        """Return whether an append keeps file, indexes and relative offsets within their limits."""
        return (
            self.size + size_bytes <= self._size_max
            and not self._indexes.is_full
            and last_offset - self.base_offset <= RELATIVE_OFFSET_MAX
        )

    def is_too_old(self, max_timestamp: int, now_ms: int) -> bool:
        """Return whether the segment must roll by age, using timestamps if there are any, else the clock."""
        if self.roll_above_ms >= 0:
            return max_timestamp > self.roll_above_ms
        return now_ms - self._created_ms > self._roll_ms

    # Indexes.

    def write_indexes(self) -> None:
        """Write buffered index entries to the index files."""
        if self._pending_index_bytes():
            self._offsets_written = self._write_index(
                OFFSET_INDEX, self._indexes.offsets, self._offsets_written
            )
            self._times_written = self._write_index(TIME_INDEX, self._indexes.times, self._times_written)
        if len(self._active_aborted) != self._aborted_written:
            self.replace_aborted(self._active_aborted)
            self._aborted_written = len(self._active_aborted)

    def _write_index(self, suffix: str, index: bytearray, written: int) -> int:
        file = self.context.files.open(self.path(suffix), create=True)
        try:
            if file.size() > written:
                file.truncate(written)
            file.write_at(written, bytes(memoryview(index)[written:]))
        finally:
            file.close()
        return len(index)

    def _truncate_indexes(self) -> None:
        """Truncate the index files to the entries in memory. Needs no disk space, unlike a rewrite."""
        self._offsets_written = self._truncate_index(
            OFFSET_INDEX, self._indexes.offsets, self._offsets_written
        )
        self._times_written = self._truncate_index(TIME_INDEX, self._indexes.times, self._times_written)

    def _truncate_index(self, suffix: str, index: bytearray, written: int) -> int:
        written = min(written, len(index))
        file = self.context.files.open(self.path(suffix), create=True)
        try:
            if file.size() > written:
                file.truncate(written)
        finally:
            file.close()
        return written

    def _truncate_aborted(self) -> None:
        kept = min(self._aborted_written, len(self._active_aborted))
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

    def _rewrite_indexes(self) -> None:
        self._offsets_written = self._write_index(OFFSET_INDEX, self._indexes.offsets, 0)
        self._times_written = self._write_index(TIME_INDEX, self._indexes.times, 0)

    def seal(self) -> LogSegment:
        """Write the complete indexes, the max timestamp last, and return the sealed segment."""
        self._indexes.add_max_timestamp()
        self.write_indexes()
        sealed = LogSegment(self.context, self.base_offset, self.size)
        sealed._max_timestamp_and_offset = self.max_timestamp_and_offset()
        sealed._aborted = tuple(self._active_aborted)
        return sealed

    def seal_in_memory(self) -> LogSegment:
        """Return the sealed segment with its indexes in memory only, for a full disk."""
        self._indexes.add_max_timestamp()
        sealed = LogSegment(self.context, self.base_offset, self.size)
        sealed.keep_indexes_in_memory(self._indexes, self._active_aborted)
        return sealed

    def sync_log(self) -> None:
        """Sync the log file. Indexes of an active segment are rebuilt after a crash, not synced. Blocks."""
        self.log_file.sync()

    def close(self) -> None:
        self.log_file.close()

    # Truncation.

    def truncate(self, offset: int) -> None:
        """Remove the batch that contains ``offset`` and all after it."""
        position = self.position_before(offset)
        if position == self.size:
            self._truncate_tail(offset)
            return
        self._active_aborted = entries_before(self._active_aborted, offset)
        self._truncate_aborted()
        relative = offset - self.base_offset
        indexes = self._indexes
        del indexes.offsets[(OFFSETS.floor(indexes.offsets, relative - 1) + 1) * OFFSETS.entry_bytes :]
        del indexes.times[time_entries_before(indexes.times, relative) * TIMES.entry_bytes :]
        self._truncate_indexes()
        self.log_file.truncate(position)
        self.size = position
        self._truncate_tail(offset)
        self._recompute_max_timestamp()

    def _truncate_tail(self, next_offset: int) -> None:
        kept = bisect_left(self.tail_positions, self.size)
        del self.tail_offsets[kept:]
        del self.tail_positions[kept:]
        if not kept:
            self.tail_floor = next_offset
        if not self.size:
            self.roll_above_ms = _NEVER

    def _recompute_max_timestamp(self) -> None:
        indexes = self._indexes
        entry = TIMES.last(indexes.times)
        timestamp, relative = entry or (NO_TIMESTAMP, 0)
        indexes.max_timestamp, indexes.offset_of_max_timestamp = timestamp, self.base_offset + relative
        near = OFFSETS.lookup(indexes.offsets, relative)
        for batch in self.walk(near[1] if near else 0):
            if batch.max_timestamp > indexes.max_timestamp:
                indexes.max_timestamp, indexes.offset_of_max_timestamp = (
                    batch.max_timestamp,
                    batch.last_offset,
                )
        last = OFFSETS.last(indexes.offsets)
        indexes.bytes_since_entry = self.size - (last[1] if last else 0)
        indexes.check_full()
