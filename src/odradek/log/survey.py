"""What there is to compact in a log, looked up. The rules are those of ``compaction``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from odradek.log.compaction import (
    Cleanable,
    FirstDirty,
    SegmentExtent,
    find_first_young,
    find_uncleanable,
    is_overdue,
    measure,
)
from odradek.log.log import Log
from odradek.log.segment import Segment


def look_at(log: Log, first_dirty: FirstDirty, now_ms: int) -> Cleanable:
    """What a round over this log would do. Reads a few bytes of dirty segments if settings ask for their age.

    ``OSError`` and ``BrokerError`` are those of such a read. ``now_ms`` is the wall clock's.
    """
    config = log.config
    dirty = [one for one in log.segments.since(first_dirty.offset) if one is not log.segments[-1]]
    times = ((one.base_offset, one.newest_ms()) for one in dirty)
    young = find_first_young(times, now_ms, config.min_compaction_lag_ms)
    lag_max_ms = config.max_compaction_lag_ms
    overdue = is_overdue(_first_timestamps(dirty, now_ms, lag_max_ms), now_ms, lag_max_ms)
    extents = [SegmentExtent(one.base_offset, one.size) for one in log.segments]
    uncleanable = find_uncleanable(log.last_stable_offset, log.recovery_point, extents[-1].base_offset, young)
    return measure(extents, first_dirty.offset, uncleanable, overdue)


def _first_timestamps(segments: Sequence[Segment], now_ms: int, lag_max_ms: int) -> Iterator[int]:
    """When each segment begins; none is read if no time could be too long ago."""
    return (one.first_timestamp() for one in segments if now_ms > lag_max_ms)
