"""The segments of a log, in order: which one holds an offset or a time.

Invariant: base offsets grow; only the last segment may be an active one.

A search by time must not go through all segments. Largest timestamps are in no order, but their running
maximum is: the first segment that reaches a time is the first at which the maximum does.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from operator import is_
from typing import Final

from odradek.log.retention import SegmentStats
from odradek.log.segments.log_segment import LogSegment, TimestampOffset, WouldBlock
from odradek.log.segments.results import EMPTY_FETCH, FetchDataInfo
from odradek.log.segments.transaction_index import AbortedTransaction, overlapping
from odradek.ports.files import FileSlice

_NO_END: Final = 2**63 - 1


class TimestampsNotLoaded(WouldBlock):
    """The newest time of this segment is to be read from its files."""

    def __init__(self, segment: LogSegment) -> None:
        super().__init__(f"the time of {segment} is not known")
        self.segment = segment


class AbortedTransactionsNotLoaded(WouldBlock):
    """The aborted transactions from this segment on, up to an offset, are to be read from files."""

    def __init__(self, segment: LogSegment, end_offset: int) -> None:
        super().__init__(f"the aborted transactions of {segment} are not known")
        self.segment = segment
        self.end_offset = end_offset


class LogSegments:
    """Never empty."""

    __slots__ = ("_bases", "_peaks", "_segments")

    def __init__(self, segments: list[LogSegment]) -> None:
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        # Of the segments at rest, as far as it was asked for.
        self._peaks: list[int] = []

    def __len__(self) -> int:
        return len(self._segments)

    def __getitem__(self, number: int) -> LogSegment:
        return self._segments[number]

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._segments)

    def add(self, segment: LogSegment) -> None:
        self._segments.append(segment)
        self._bases.append(segment.base_offset)

    def replace_last(self, segment: LogSegment) -> None:
        """Put another form of the last segment in its place."""
        self._segments[-1] = segment

    def start_with(self, segment: LogSegment) -> None:
        """Hold this one only."""
        self._segments, self._bases, self._peaks = [segment], [segment.base_offset], []

    def drop_after(self, offset: int) -> list[LogSegment]:
        """Let go of the segments that start above ``offset``, but for the first, and give them."""
        kept = max(bisect_right(self._bases, offset), 1)
        dropped = self._segments[kept:]
        del self._segments[kept:], self._bases[kept:], self._peaks[kept - 1 :]
        return dropped

    def drop_first(self, count: int) -> list[LogSegment]:
        """Let go of the oldest segments, never of all, and give them."""
        count = min(count, len(self._segments) - 1)
        dropped = self._segments[:count]
        del self._segments[:count], self._bases[:count]
        if count:
            self._peaks = []
        return dropped

    def holds(self, run: Sequence[LogSegment]) -> bool:
        """Whether these very segments are here, one after the other, and none of them is the last."""
        first = bisect_left(self._bases, run[0].base_offset)
        here = self._segments[first : first + len(run)]
        return first + len(run) < len(self._segments) and all(map(is_, here, run))

    def replace(self, run: Sequence[LogSegment], by: LogSegment) -> None:
        """Put one segment in the place of others that follow on each other."""
        first = bisect_left(self._bases, run[0].base_offset)
        self._segments[first : first + len(run)] = [by]
        self._bases[first : first + len(run)] = [by.base_offset]
        del self._peaks[first:]

    def facts(self, log_end_offset: int, *, with_times: bool = True) -> Iterator[SegmentStats]:
        """Facts for retention, one at a time: ``TimestampsNotLoaded`` if the time of a segment must be read
        first.

        Without times, all segments pass for as new as can be.
        """
        ends = [*self._bases[1:], log_end_offset]
        for number, segment in enumerate(self._segments):
            is_last = number == len(ends) - 1
            if with_times and not segment.is_timed:
                raise TimestampsNotLoaded(segment)
            newest_ms = segment.newest_ms() if with_times else _NO_END
            yield SegmentStats(segment.base_offset, ends[number], segment.size, newest_ms, is_last)

    def since(self, offset: int) -> list[LogSegment]:
        """The segment that holds ``offset`` and all after it."""
        return self._segments[max(bisect_right(self._bases, offset) - 1, 0) :]

    def read(
        self, offset: int, bytes_max: int, end_offset: int, log_end_offset: int, at_least_one: bool
    ) -> FetchDataInfo:
        """Batches from the one that holds ``offset``, or the first after it, up to ``end_offset``."""
        number = max(bisect_right(self._bases, offset) - 1, 0)
        while number < len(self._segments) and self._bases[number] < end_offset:
            segment = self._segments[number]
            number += 1
            found = segment.locate(offset)
            if found is None:
                continue
            end = segment.size
            ends_here = number == len(self._bases) or end_offset < self._bases[number]
            if ends_here and end_offset < log_end_offset:
                # Where exactly the end lies matters only if the read comes near it.
                reach = found.position + max(bytes_max, found.size_bytes)
                end = segment.position_known_before(end_offset)
                if end < reach:
                    end = segment.position_before(end_offset)
            size_bytes = end - found.position
            if size_bytes <= 0:
                return EMPTY_FETCH
            return cut(segment, found.position, size_bytes, found.size_bytes, bytes_max, at_least_one)
        return EMPTY_FETCH

    def aborted_transactions_between(
        self, from_offset: int, end_offset: int, may_block: bool = True
    ) -> list[AbortedTransaction]:
        """The aborted transactions that have records from ``from_offset`` on and below ``end_offset``.

        ``AbortedTransactionsNotLoaded`` if that would wait for the disk and must not.
        """
        found: list[AbortedTransaction] = []
        for number in range(max(bisect_right(self._bases, from_offset) - 1, 0), len(self._segments)):
            segment = self._segments[number]
            if not may_block and not segment.knows_aborted:
                raise AbortedTransactionsNotLoaded(segment, end_offset)
            entries = segment.aborted()
            if entries:
                some, is_all = overlapping(entries, from_offset, end_offset)
                found += some
                if is_all:
                    break
        return found

    def end_offset_of(self, fetched: FetchDataInfo, log_end_offset: int) -> int:
        """An offset behind all that was read; near to it as the index knows."""
        segment, data = fetched.segment, fetched.data
        if segment is None or isinstance(data, bytes):
            return 0
        known = segment.offset_known_behind(data.position + data.size_bytes)
        if known is not None:
            return known
        number = bisect_right(self._bases, segment.base_offset)
        return self._bases[number] if number < len(self._bases) else log_end_offset

    def find_time(self, timestamp: int, from_offset: int) -> TimestampOffset | None:
        """The first record at ``from_offset`` or later that is not older than ``timestamp``."""
        for number in range(self._first_reaching(timestamp), len(self._segments)):
            segment = self._segments[number]
            if segment.newest_ms() >= timestamp:
                found = segment.find_time(timestamp, from_offset)
                if found is not None:
                    return found
        return None

    def reaching(self, timestamp: int, behind_offset: int, count_max: int) -> list[LogSegment]:
        """Where a search by time has to look next: from the first segment on that reaches the time and begins
        behind this offset."""
        first = max(self._first_reaching(timestamp), bisect_right(self._bases, behind_offset))
        return self._segments[first : first + count_max]

    def untimed(self, timestamp: int) -> list[LogSegment]:
        """Segments at rest whose times have to be read before it is known which reach this one."""
        if self._peaks and self._peaks[-1] >= timestamp:
            return []
        return [segment for segment in self._segments[len(self._peaks) : -1] if not segment.is_timed]

    def _first_reaching(self, timestamp: int) -> int:
        """Number of the first segment that reaches ``timestamp``; of the last if none at rest does."""
        peaks, at_rest = self._peaks, len(self._segments) - 1
        while len(peaks) < at_rest and (not peaks or peaks[-1] < timestamp):
            peak = self._segments[len(peaks)].newest_ms()
            peaks.append(max(peak, peaks[-1]) if peaks else peak)
        return bisect_left(peaks, timestamp)

    def find_max_timestamp(self) -> TimestampOffset | None:
        """The first record that has the largest timestamp of all."""
        newest = max(self._segments, key=lambda segment: segment.largest().timestamp)
        return newest.record_of_largest() if newest.largest().timestamp >= 0 else None

    def starts_before(
        self, timestamp: int, count_max: int, log_start_offset: int, log_end_offset: int, now_ms: int
    ) -> list[int]:
        """Starts of segments last written by ``timestamp``, newest first; -1 stands for the end, -2 for the
        start."""
        starts = [max(base, log_start_offset) for base in self._bases]
        if timestamp == -2:
            return starts[: min(count_max, 1)]
        written = [segment.modified_ms() for segment in self._segments] if timestamp >= 0 else []
        if self._segments[-1].size:
            starts.append(log_end_offset)
            written.append(now_ms)
        found = len(starts)
        if timestamp >= 0:
            while found and written[found - 1] > timestamp:
                found -= 1
        return sorted(starts[:found], reverse=True)[:count_max]


def cut(
    segment: LogSegment,
    position: int,
    size_bytes: int,
    first_bytes: int,
    bytes_max: int,
    at_least_one: bool,
    is_recent: bool = False,
) -> FetchDataInfo:
    """As much of a range as is allowed."""
    allowed = max(bytes_max, first_bytes) if at_least_one else bytes_max
    size_bytes = min(size_bytes, allowed)
    if size_bytes <= 0:
        return FetchDataInfo(b"", first_entry_incomplete=True)
    part = FileSlice(segment.file(), position, size_bytes, is_recent)
    return FetchDataInfo(part, allowed < first_bytes, segment)
