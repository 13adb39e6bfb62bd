"""What of a log is to be compacted, and which log next. Decides only; the cleaner carries it out.

Compaction keeps the newest record of each key and leaves every offset as it is. It goes over whole segments
that change no more, from the first of the log up to the first that must not be touched yet:

- nothing at or above the last stable offset: it may yet be taken back;
- not the last segment, which is still written to;
- nothing at or above the recovery point: recovery has to read that, and takes a hole for damage;
- no segment whose newest record is younger than ``min.compaction.lag.ms``, nor any after it.

What was compacted before counts as clean up to the offset that the cleaner wrote down; the rest is dirty. A
log is worth a round when its dirty share is above ``min.cleanable.dirty.ratio``, or when it has dirty records
older than ``max.compaction.lag.ms``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

from odradek.log.segments.segment_format import RELATIVE_OFFSET_MAX

T = TypeVar("T")

GROUP_SEGMENTS_MAX: Final = 32
"""Segments that one new segment replaces. Their names change in one go on the loop, some 20 µs each."""


class FirstDirty(NamedTuple):
    offset: int
    is_reset: bool
    """What was written down cannot be true of this log, and is to be replaced."""


class SegmentExtent(NamedTuple):
    base_offset: int
    size_bytes: int


class LogToClean(NamedTuple):
    """What a round over one log would do."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    """Where the first segment begins that stays as it is."""
    clean_bytes: int
    cleanable_bytes: int
    is_overdue: bool

    @property
    def dirty_ratio(self) -> float:
        total_bytes = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total_bytes if total_bytes else 0.0

    def is_worth(self, dirty_ratio_min: float) -> bool:
        return self.cleanable_bytes > 0 and (self.is_overdue or self.dirty_ratio > dirty_ratio_min)


def find_first_dirty(checkpointed: int | None, log_start_offset: int, log_end_offset: int) -> FirstDirty:
    """Where the part begins that was not compacted yet.

    An offset above the end speaks of a log that lost its end: nothing it says can be relied on.
    """
    if checkpointed is None:
        return FirstDirty(log_start_offset, False)
    if log_start_offset <= checkpointed <= log_end_offset:
        return FirstDirty(checkpointed, False)
    return FirstDirty(log_start_offset, True)


def find_first_young(newest_ms: Iterable[tuple[int, int]], now_ms: int, lag_min_ms: int) -> int | None:
    """The first segment with a record younger than the lag, given base offsets and newest timestamps.

    Looks at none after it: each may cost a read.
    """
    if lag_min_ms <= 0:
        return None
    return next((base_offset for base_offset, newest in newest_ms if newest > now_ms - lag_min_ms), None)


def is_overdue(first_timestamps: Iterable[int], now_ms: int, lag_max_ms: int) -> bool:
    """Whether a dirty segment begins with a record older than the lag. Records may be without a time."""
    return any(0 < timestamp < now_ms - lag_max_ms for timestamp in first_timestamps)


def find_uncleanable(
    last_stable_offset: int, recovery_point: int, last_base_offset: int, young_offset: int | None
) -> int:
    """The first offset that must stay as it is."""
    first = min(last_stable_offset, recovery_point, last_base_offset)
    return first if young_offset is None else min(first, young_offset)


def measure(
    segments: Sequence[SegmentExtent], first_dirty_offset: int, uncleanable_offset: int, overdue: bool
) -> LogToClean:
    """Sum up a log's segments, all of them in order; a segment that is half dirty counts on both sides."""
    uncleanable_offset = max(uncleanable_offset, first_dirty_offset)
    first_uncleanable = segments[0].base_offset
    clean_bytes = cleanable_bytes = 0
    for number, (base_offset, size_bytes) in enumerate(segments):
        is_last = number == len(segments) - 1
        end_offset = base_offset if is_last else segments[number + 1].base_offset
        if is_last or uncleanable_offset < end_offset:
            first_uncleanable = base_offset
            break
        if base_offset < first_dirty_offset:
            clean_bytes += size_bytes
        if end_offset > first_dirty_offset:
            cleanable_bytes += size_bytes
    return LogToClean(first_dirty_offset, first_uncleanable, clean_bytes, cleanable_bytes, overdue)


def choose(candidates: Iterable[tuple[T, LogToClean, float]]) -> tuple[T, LogToClean] | None:
    """The dirtiest log that is worth a round; given are logs, what a round would do, and the least ratio."""
    worth = [(one, cleanable) for one, cleanable, ratio_min in candidates if cleanable.is_worth(ratio_min)]
    return max(worth, key=lambda found: found[1].dirty_ratio, default=None)


class SegmentSizes(NamedTuple):
    base_offset: int
    end_offset: int
    """Where the next one begins."""
    size_bytes: int
    offset_index_bytes: int
    time_index_bytes: int


def group(segments: Sequence[SegmentSizes], segment_bytes: int, index_bytes: int) -> list[range]:
    """Which neighbours are compacted into one segment, as ranges of numbers.

    A group is no larger than a segment may be, as if nothing went: so that segments do not get ever smaller.
    A segment that is too large by itself is a group of its own.
    """
    groups: list[range] = []
    first = 0
    for number in range(1, len(segments) + 1):
        if number == len(segments) or not _fits(segments[first : number + 1], segment_bytes, index_bytes):
            groups.append(range(first, number))
            first = number
    return groups


def _fits(together: Sequence[SegmentSizes], segment_bytes: int, index_bytes: int) -> bool:
    newest = together[-1]
    reach = newest.end_offset - 1 - together[0].base_offset
    return (
        len(together) <= GROUP_SEGMENTS_MAX
        and sum(one.size_bytes for one in together) <= segment_bytes
        and sum(one.offset_index_bytes for one in together) <= index_bytes
        and sum(one.time_index_bytes for one in together) <= index_bytes
        and (reach <= RELATIVE_OFFSET_MAX or newest.size_bytes == 0)
    )


def slots_for(dirty_offsets: int, memory_bytes: int, slot_bytes: int, load_factor: float) -> int:
    """How many keys a map has room for: as many as the memory holds, or fewer if so many cannot come."""
    wanted = int(dirty_offsets / load_factor) + 2 if load_factor > 0 else 2
    return max(min(memory_bytes // slot_bytes, wanted), 2)
