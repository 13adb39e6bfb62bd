"""What there is to compact in a log, looked up. The rules are those of ``compaction``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from struct import Struct

from odradek.log.cleaning.log_to_clean import (
    FirstDirty,
    LogToClean,
    SegmentExtent,
    find_first_young,
    find_uncleanable,
    is_overdue,
    measure,
)
from odradek.log.log import Log
from odradek.log.segments.log_segment import LogSegment
from odradek.log.segments.page_in import SEGMENTS_AT_ONCE, read_times
from odradek.log.segments.segment_format import LOG
from odradek.model.ids import NO_TIMESTAMP
from odradek.records.layout import BATCH_OVERHEAD, MAGIC_POSITION, MAX_TIMESTAMP_POSITION

_TIMESTAMP = Struct(">q")
_TIMESTAMP_POSITION_1 = 18


async def find_cleanable_offsets(log: Log, first_dirty: FirstDirty, now_ms: int) -> LogToClean:
    """What a round over this log would do. Reads a few bytes of dirty segments if settings ask for their age.

    ``OSError`` and ``BrokerError`` are those of such a read. ``now_ms`` is the wall clock's.
    """
    config = log.config
    dirty = [one for one in log.segments.since(first_dirty.offset) if one is not log.segments[-1]]
    young = await _first_young(log, dirty, now_ms)
    firsts: list[int] = []
    if now_ms > config.max_compaction_lag_ms and dirty:
        firsts = await dirty[0].context.files.offload(lambda: first_timestamps(dirty))
    overdue = is_overdue(firsts, now_ms, config.max_compaction_lag_ms)
    extents = [SegmentExtent(one.base_offset, one.size) for one in log.segments]
    uncleanable = find_uncleanable(log.last_stable_offset, log.recovery_point, extents[-1].base_offset, young)
    return measure(extents, first_dirty.offset, uncleanable, overdue)


async def _first_young(log: Log, dirty: Sequence[LogSegment], now_ms: int) -> int | None:
    """The first dirty segment that is too young for a round. Times are read on a thread, once."""
    lag_ms = log.config.min_compaction_lag_ms
    for first in range(0, len(dirty), SEGMENTS_AT_ONCE) if lag_ms > 0 else ():
        some = dirty[first : first + SEGMENTS_AT_ONCE]
        await read_times(log.segments, some)
        # One that has left the log meanwhile stays without a time; the next survey looks again.
        times = [(one.base_offset, one.newest_ms()) for one in some if one.is_timed]
        young = find_first_young(times, now_ms, lag_ms)
        if young is not None:
            return young
    return None


def first_timestamps(segments: Sequence[LogSegment]) -> list[int]:
    """The largest timestamp of each segment's first batch: what its age is counted from. Waits."""
    found = []
    for segment in segments:
        with suppress(FileNotFoundError):  # it has left the log meanwhile
            file = segment.context.files.open(segment.path(LOG), writable=False)
            found.append(_first_timestamp(file.read_at(0, BATCH_OVERHEAD)))
            file.close()
    return found


def _first_timestamp(start: bytes) -> int:
    if len(start) <= MAGIC_POSITION or start[MAGIC_POSITION] == 0:
        return NO_TIMESTAMP
    position = MAX_TIMESTAMP_POSITION if start[MAGIC_POSITION] == 2 else _TIMESTAMP_POSITION_1
    if len(start) < position + _TIMESTAMP.size:
        return NO_TIMESTAMP
    timestamp: int = _TIMESTAMP.unpack_from(start, position)[0]
    return timestamp
