"""Cleanable section of a log, by the rules of ``log_to_clean``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from struct import Struct

from odradek.log.cleaning.log_to_clean import (
    FirstDirty,
    LogToClean,
    SegmentExtent,
    find_first_too_recent,
    find_first_uncleanable,
    is_overdue,
    measure,
)
from odradek.log.log import Log
from odradek.log.segments.log_segment import LogSegment
from odradek.log.segments.page_in import SEGMENTS_AT_ONCE, load_timestamps
from odradek.log.segments.segment_format import LOG
from odradek.model.ids import NO_TIMESTAMP
from odradek.records.layout import BATCH_OVERHEAD, MAGIC_POSITION, MAX_TIMESTAMP_POSITION

_TIMESTAMP = Struct(">q")
_TIMESTAMP_POSITION_1 = 18


async def find_cleanable_offsets(log: Log, first_dirty: FirstDirty, now_ms: int) -> LogToClean:
    """Return the cleanable section of a log. Reads from dirty segments if the settings depend on their age.

    Raises ``OSError`` or ``BrokerError`` if that read fails. ``now_ms`` is wall clock time.
    """
    config = log.config
    dirty = [
        segment
        for segment in log.segments.segments_from(first_dirty.offset)
        if segment is not log.segments[-1]
    ]
    too_recent = await _first_too_recent(log, dirty, now_ms)
    firsts: list[int] = []
    if now_ms > config.max_compaction_lag_ms and dirty:
        firsts = await dirty[0].context.files.offload(lambda: first_timestamps(dirty))
    overdue = is_overdue(firsts, now_ms, config.max_compaction_lag_ms)
    extents = [SegmentExtent(segment.base_offset, segment.size) for segment in log.segments]
    uncleanable = find_first_uncleanable(
        log.last_stable_offset, log.recovery_point, extents[-1].base_offset, too_recent
    )
    return measure(extents, first_dirty.offset, uncleanable, overdue)


async def _first_too_recent(log: Log, dirty: Sequence[LogSegment], now_ms: int) -> int | None:
    """Return the first dirty segment within ``min.compaction.lag.ms``, reading timestamps on a thread."""
    lag_ms = log.config.min_compaction_lag_ms
    for first in range(0, len(dirty), SEGMENTS_AT_ONCE) if lag_ms > 0 else ():
        chunk = dirty[first : first + SEGMENTS_AT_ONCE]
        await load_timestamps(log.segments, chunk)
        # A segment removed meanwhile has no timestamp; the next call does not see it.
        timestamps = [
            (segment.base_offset, segment.largest_timestamp())
            for segment in chunk
            if segment.timestamps_loaded
        ]
        base_offset = find_first_too_recent(timestamps, now_ms, lag_ms)
        if base_offset is not None:
            return base_offset
    return None


def first_timestamps(segments: Sequence[LogSegment]) -> list[int]:
    """Return the max timestamp of each segment's first batch, from which its age counts. Blocks."""
    timestamps = []
    for segment in segments:
        with suppress(FileNotFoundError):  # removed meanwhile
            file = segment.context.files.open(segment.path(LOG), writable=False)
            timestamps.append(_first_timestamp(file.read_at(0, BATCH_OVERHEAD)))
            file.close()
    return timestamps


def _first_timestamp(start: bytes) -> int:
    if len(start) <= MAGIC_POSITION or start[MAGIC_POSITION] == 0:
        return NO_TIMESTAMP
    position = MAX_TIMESTAMP_POSITION if start[MAGIC_POSITION] == 2 else _TIMESTAMP_POSITION_1
    if len(start) < position + _TIMESTAMP.size:
        return NO_TIMESTAMP
    timestamp: int = _TIMESTAMP.unpack_from(start, position)[0]
    return timestamp
