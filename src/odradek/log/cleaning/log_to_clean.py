"""Selection of the log to clean and of its cleanable section. Pure: the cleaner carries it out.

Compaction keeps the latest record of each key and does not change offsets. It rewrites whole segments from
the start of the log up to the first uncleanable one:

- nothing at or above the last stable offset, as it may be aborted or truncated;
- not the active segment;
- nothing at or above the recovery point: recovery would take a gap for data loss;
- no segment with records younger than ``min.compaction.lag.ms``, nor any after it.

The section up to the checkpointed offset is clean, the rest is dirty. A log is cleaned if its dirty ratio is
above ``min.cleanable.dirty.ratio``, or if it has dirty records older than ``max.compaction.lag.ms``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

from odradek.log.segments.segment_format import RELATIVE_OFFSET_MAX

T = TypeVar("T")

GROUP_SEGMENTS_MAX: Final = 32
"""Segments that one cleaned segment replaces. They are renamed on the event loop, about 20 µs each."""


class FirstDirty(NamedTuple):
    offset: int
    is_reset: bool
    """True if the checkpointed offset is invalid for this log and must be reset."""


class SegmentExtent(NamedTuple):
    base_offset: int
    size_bytes: int


class LogToClean(NamedTuple):
    """Cleanable section of a log."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    """Base offset of the first uncleanable segment."""
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
    """Return the start of the dirty section.

    An offset above the log end means that the log was truncated: the checkpoint is not reliable.
    """
    if checkpointed is None:
        return FirstDirty(log_start_offset, False)
    if log_start_offset <= checkpointed <= log_end_offset:
        return FirstDirty(checkpointed, False)
    return FirstDirty(log_start_offset, True)


def find_first_too_recent(
    largest_timestamps: Iterable[tuple[int, int]], now_ms: int, lag_min_ms: int
) -> int | None:
    """Return the first segment with a record younger than the lag, given base offsets and largest timestamps.

    Stops there: each timestamp may cost a read.
    """
    if lag_min_ms <= 0:
        return None
    return next(
        (base_offset for base_offset, timestamp in largest_timestamps if timestamp > now_ms - lag_min_ms),
        None,
    )


def is_overdue(first_timestamps: Iterable[int], now_ms: int, lag_max_ms: int) -> bool:
    """Return whether a dirty segment starts with a record older than the lag; -1 is no timestamp."""
    return any(0 < timestamp < now_ms - lag_max_ms for timestamp in first_timestamps)


def find_first_uncleanable(
    last_stable_offset: int, recovery_point: int, last_base_offset: int, too_recent_offset: int | None
) -> int:
    """Return the first offset that must not be cleaned."""
    first = min(last_stable_offset, recovery_point, last_base_offset)
    return first if too_recent_offset is None else min(first, too_recent_offset)


def measure(
    segments: Sequence[SegmentExtent], first_dirty_offset: int, uncleanable_offset: int, overdue: bool
) -> LogToClean:
    """Compute the cleanable section from all segments in order; a partly dirty segment counts as both."""
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


def choose_filthiest(candidates: Iterable[tuple[T, LogToClean, float]]) -> tuple[T, LogToClean] | None:
    """Return the filthiest log worth cleaning, given sections and minimum dirty ratios."""
    cleanable = [(log, section) for log, section, ratio_min in candidates if section.is_worth(ratio_min)]
    return max(cleanable, key=lambda candidate: candidate[1].dirty_ratio, default=None)


class SegmentSizes(NamedTuple):
    base_offset: int
    end_offset: int
    """Base offset of the next segment."""
    size_bytes: int
    offset_index_bytes: int
    time_index_bytes: int


def group_segments_by_size(
    segments: Sequence[SegmentSizes], segment_bytes: int, index_bytes: int
) -> list[range]:
    """Group consecutive segments that are cleaned into one, as index ranges.

    The total size of a group before cleaning is at most the segment size, so that segments do not get ever
    smaller. A segment that is too large by itself forms its own group.
    """
    groups: list[range] = []
    first = 0
    for number in range(1, len(segments) + 1):
        if number == len(segments) or not _fits(segments[first : number + 1], segment_bytes, index_bytes):
            groups.append(range(first, number))
            first = number
    return groups


def _fits(segments: Sequence[SegmentSizes], segment_bytes: int, index_bytes: int) -> bool:
    last = segments[-1]
    relative_end = last.end_offset - 1 - segments[0].base_offset
    return (
        len(segments) <= GROUP_SEGMENTS_MAX
        and sum(segment.size_bytes for segment in segments) <= segment_bytes
        and sum(segment.offset_index_bytes for segment in segments) <= index_bytes
        and sum(segment.time_index_bytes for segment in segments) <= index_bytes
        and (relative_end <= RELATIVE_OFFSET_MAX or last.size_bytes == 0)
    )


def offset_map_slots(dirty_offsets: int, memory_bytes: int, slot_bytes: int, load_factor: float) -> int:
    """Return the number of offset map slots: limited by memory, and by the number of dirty offsets."""
    wanted = int(dirty_offsets / load_factor) + 2 if load_factor > 0 else 2
    return max(min(memory_bytes // slot_bytes, wanted), 2)
