"""The segments of a log in base offset order, with lookup by offset and by timestamp.

Invariant: base offsets increase; only the last segment may be active.

A search by timestamp must not visit all segments. Max timestamps are not ordered, but their running maximum
is: the first segment that reaches a timestamp is the first at which the running maximum does.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import is_
from typing import Final

from odradek.log.retention import SegmentStats
from odradek.log.segments.log_segment import LogSegment, TimestampOffset, WouldBlock
from odradek.log.segments.results import EMPTY_FETCH, FetchDataInfo
from odradek.log.segments.transaction_index import AbortedTransaction, overlapping_transactions
from odradek.ports.files import FileSlice, FileSystem

_NO_END: Final = 2**63 - 1


class TimestampsNotLoaded(WouldBlock):
    """Raised when the largest timestamp of a segment must be read from its files."""

    def __init__(self, segment: LogSegment) -> None:
        super().__init__(f"the largest timestamp of {segment} is not loaded")
        self.segment = segment


class AbortedTransactionsNotLoaded(WouldBlock):
    """Raised when aborted transactions must be read from files, from this segment up to ``end_offset``."""

    def __init__(self, segment: LogSegment, end_offset: int) -> None:
        super().__init__(f"the aborted transactions of {segment} are not loaded")
        self.segment = segment
        self.end_offset = end_offset


class RunningMaxTimestamp:
    """Running maximum of the sealed segments' largest timestamps, as far as it was needed."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: list[int] = []

    def drop_from(self, number: int) -> None:
        """Forget the values from this segment on: it was replaced or removed."""
        del self._values[number:]

    def first_reaching(self, timestamp: int, segments: Sequence[LogSegment]) -> int:
        """Return the index of the first segment that reaches ``timestamp``, or of the last segment."""
        values, sealed_count = self._values, len(segments) - 1
        while len(values) < sealed_count and (not values or values[-1] < timestamp):
            largest = segments[len(values)].largest_timestamp()
            values.append(max(largest, values[-1]) if values else largest)
        return bisect_left(values, timestamp)

    def without_timestamps(self, timestamp: int, segments: Sequence[LogSegment]) -> list[LogSegment]:
        """Return the sealed segments whose timestamps must be read to find those that reach ``timestamp``."""
        if self._values and self._values[-1] >= timestamp:
            return []
        return [segment for segment in segments[len(self._values) : -1] if not segment.timestamps_loaded]


class LogSegments:
    """Segments of a log; never empty."""

    __slots__ = ("_base_offsets", "_running_max", "_segments")

    def __init__(self, segments: list[LogSegment]) -> None:
        self._segments = segments
        self._base_offsets = [segment.base_offset for segment in segments]
        self._running_max = RunningMaxTimestamp()

    def __len__(self) -> int:
        return len(self._segments)

    def __getitem__(self, number: int) -> LogSegment:
        return self._segments[number]

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._segments)

    def add(self, segment: LogSegment) -> None:
        self._segments.append(segment)
        self._base_offsets.append(segment.base_offset)

    def replace_last(self, segment: LogSegment) -> None:
        """Replace the last segment by its sealed or active form."""
        self._segments[-1] = segment

    def reset(self, segment: LogSegment) -> None:
        """Replace all segments by this one."""
        self._segments, self._base_offsets = [segment], [segment.base_offset]
        self._running_max.drop_from(0)

    def drop_after(self, offset: int) -> list[LogSegment]:
        """Remove and return the segments with a base offset > ``offset``, except the first segment."""
        kept = max(bisect_right(self._base_offsets, offset), 1)
        dropped = self._segments[kept:]
        del self._segments[kept:], self._base_offsets[kept:]
        self._running_max.drop_from(kept - 1)
        return dropped

    def drop_first(self, count: int) -> list[LogSegment]:
        """Remove and return the oldest segments, at most all but one."""
        count = min(count, len(self._segments) - 1)
        dropped = self._segments[:count]
        del self._segments[:count], self._base_offsets[:count]
        if count:
            self._running_max.drop_from(0)
        return dropped

    def contains_run(self, run: Sequence[LogSegment]) -> bool:
        """Return whether exactly these consecutive segments are here and none of them is the last."""
        first = bisect_left(self._base_offsets, run[0].base_offset)
        here = self._segments[first : first + len(run)]
        return first + len(run) < len(self._segments) and all(map(is_, here, run))

    def replace(self, run: Sequence[LogSegment], by: LogSegment) -> None:
        """Replace consecutive segments by one."""
        first = bisect_left(self._base_offsets, run[0].base_offset)
        self._segments[first : first + len(run)] = [by]
        self._base_offsets[first : first + len(run)] = [by.base_offset]
        self._running_max.drop_from(first)

    def stats(self, log_end_offset: int, *, with_timestamps: bool = True) -> Iterator[SegmentStats]:
        """Yield input for retention; raises ``TimestampsNotLoaded`` if a timestamp must be read first.

        Without timestamps every segment counts as brand new.
        """
        ends = [*self._base_offsets[1:], log_end_offset]
        for number, segment in enumerate(self._segments):
            is_last = number == len(ends) - 1
            if with_timestamps and not segment.timestamps_loaded:
                raise TimestampsNotLoaded(segment)
            largest_timestamp = segment.largest_timestamp() if with_timestamps else _NO_END
            yield SegmentStats(segment.base_offset, ends[number], segment.size, largest_timestamp, is_last)

    def segments_from(self, offset: int) -> list[LogSegment]:
        """Return the segment that contains ``offset`` and all after it."""
        return self._segments[max(bisect_right(self._base_offsets, offset) - 1, 0) :]

    def read(
        self, offset: int, bytes_max: int, end_offset: int, log_end_offset: int, at_least_one: bool
    ) -> FetchDataInfo:
        """Return batches from the one that contains ``offset``, or the next one, up to ``end_offset``."""
        number = max(bisect_right(self._base_offsets, offset) - 1, 0)
        while number < len(self._segments) and self._base_offsets[number] < end_offset:
            segment = self._segments[number]
            number += 1
            batch = segment.locate(offset)
            if batch is None:
                continue
            end = segment.size
            ends_here = number == len(self._base_offsets) or end_offset < self._base_offsets[number]
            if ends_here and end_offset < log_end_offset:
                # The exact end position matters only if the read can reach it.
                reach = batch.position + max(bytes_max, batch.size_bytes)
                end = segment.indexed_position_before(end_offset)
                if end < reach:
                    end = segment.position_before(end_offset)
            size_bytes = end - batch.position
            if size_bytes <= 0:
                return EMPTY_FETCH
            return fetch_slice(
                segment,
                batch.position,
                size_bytes,
                batch.size_bytes,
                bytes_max,
                at_least_one,
                read_end=batch.read_end,
            )
        return EMPTY_FETCH

    def aborted_transactions_between(
        self, from_offset: int, end_offset: int, may_block: bool = True
    ) -> list[AbortedTransaction]:
        """Return the aborted transactions with records in [``from_offset``, ``end_offset``).

        Raises ``AbortedTransactionsNotLoaded`` if that would block and must not.
        """
        aborted: list[AbortedTransaction] = []
        for number in range(max(bisect_right(self._base_offsets, from_offset) - 1, 0), len(self._segments)):
            segment = self._segments[number]
            if not may_block and not segment.aborted_loaded:
                raise AbortedTransactionsNotLoaded(segment, end_offset)
            entries = segment.aborted()
            if entries:
                overlapping, is_complete = overlapping_transactions(entries, from_offset, end_offset)
                aborted += overlapping
                if is_complete:
                    break
        return aborted

    def end_offset_of(self, fetched: FetchDataInfo, log_end_offset: int) -> int:
        """Return an offset after all fetched records, as close as the index allows."""
        segment, data = fetched.segment, fetched.data
        if segment is None or isinstance(data, bytes):
            return 0
        end_offset = segment.indexed_offset_after(data.position + data.size_bytes)
        if end_offset is not None:
            return end_offset
        number = bisect_right(self._base_offsets, segment.base_offset)
        return self._base_offsets[number] if number < len(self._base_offsets) else log_end_offset

    def find_offset_by_timestamp(self, timestamp: int, from_offset: int) -> TimestampOffset | None:
        """Return the first record at or after ``from_offset`` with a timestamp >= ``timestamp``."""
        for number in range(self._running_max.first_reaching(timestamp, self._segments), len(self._segments)):
            segment = self._segments[number]
            if segment.largest_timestamp() >= timestamp:
                record = segment.find_offset_by_timestamp(timestamp, from_offset)
                if record is not None:
                    return record
        return None

    def candidates_for_timestamp(self, timestamp: int, after_offset: int, count_max: int) -> list[LogSegment]:
        """Return the next segments to search for ``timestamp``, with base offsets > ``after_offset``."""
        first = max(
            self._running_max.first_reaching(timestamp, self._segments),
            bisect_right(self._base_offsets, after_offset),
        )
        return self._segments[first : first + count_max]

    def without_timestamps(self, timestamp: int) -> list[LogSegment]:
        """Return the sealed segments whose timestamps must be read to find those that reach ``timestamp``."""
        return self._running_max.without_timestamps(timestamp, self._segments)

    def find_max_timestamp(self) -> TimestampOffset | None:
        """Return the first record with the max timestamp of the log."""
        segment = max(self._segments, key=lambda each: each.max_timestamp_and_offset().timestamp)
        if segment.max_timestamp_and_offset().timestamp < 0:
            return None
        return segment.find_max_timestamp_record()


def legacy_offsets_before(
    segments: LogSegments,
    timestamp: int,
    count_max: int,
    log_start_offset: int,
    log_end_offset: int,
    now_ms: int,
) -> list[int]:
    """Return start offsets of segments last modified by ``timestamp``, newest first.

    -1 means latest, -2 earliest, as in ListOffsets version 0.
    """
    starts = [max(segment.base_offset, log_start_offset) for segment in segments]
    if timestamp == -2:
        return starts[: min(count_max, 1)]
    written = [segment.modified_ms() for segment in segments] if timestamp >= 0 else []
    if segments[-1].size:
        starts.append(log_end_offset)
        written.append(now_ms)
    count = len(starts)
    if timestamp >= 0:
        while count and written[count - 1] > timestamp:
            count -= 1
    return sorted(starts[:count], reverse=True)[:count_max]


def fetch_slice(
    segment: LogSegment,
    position: int,
    size_bytes: int,
    first_bytes: int,
    bytes_max: int,
    at_least_one: bool,
    is_recent: bool = False,
    read_end: int = 0,
) -> FetchDataInfo:
    """Return as much of a range as ``bytes_max`` allows. It was just read up to ``read_end``."""
    allowed = max(bytes_max, first_bytes) if at_least_one else bytes_max
    size_bytes = min(size_bytes, allowed)
    if size_bytes <= 0:
        return FetchDataInfo(b"", first_entry_incomplete=True)
    part = FileSlice(segment.file(), position, size_bytes, is_recent or position + size_bytes <= read_end)
    return FetchDataInfo(part, allowed < first_bytes, segment)


class PendingSegmentDeletes:
    """Segments removed from a log whose files are not deleted yet.

    Files are renamed to ``.deleted`` at once and deleted after ``file.delete.delay.ms``, so that reads in
    progress can finish.
    """

    __slots__ = ("_files", "_segments")

    def __init__(self, files: FileSystem) -> None:
        self._files = files
        self._segments: list[tuple[int, LogSegment]] = []

    def __bool__(self) -> bool:
        return bool(self._segments)

    def add(self, segments: Iterable[LogSegment], due_ms: int, *, keeps_snapshots: bool = False) -> None:
        """Rename segments to ``.deleted``, oldest first, so that a crash in between leaves no gap.

        ``due_ms`` is the earliest time of deletion, by the monotonic clock.
        """
        for segment in segments:
            segment.mark_deleted(keeps_snapshot=keeps_snapshots)
            self._segments.append((due_ms, segment))

    async def remove_due(self, now_ms: int) -> int:
        """Delete the files of segments that are due; return the number of segments."""
        due = [segment for due_ms, segment in self._segments if due_ms <= now_ms]
        if not due:
            return 0
        self._segments = [(due_ms, segment) for due_ms, segment in self._segments if due_ms > now_ms]

        def work() -> None:
            for segment in due:
                segment.remove_marked()

        await self._files.offload(work)
        return len(due)
