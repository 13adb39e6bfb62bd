"""Deletion of old segments: by retention, and below the log start offset. ``retention`` decides which."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.log.local_log import LocalLog
from odradek.log.retention import DeletableSegment, LogStats, find_deletable_segments
from odradek.log.segments import page_in
from odradek.log.segments.log_segment import LogSegment
from odradek.log.segments.log_segments import TimestampsNotLoaded


async def delete_old_segments(log: LocalLog, now_ms: int, monotonic_ms: int) -> list[DeletableSegment]:
    """Remove segments by retention and log start offset, and return them.

    Files are renamed now and deleted by ``delete_pending_segments`` after ``file.delete.delay.ms``; reads
    in progress can finish. ``now_ms`` is wall clock time.
    """
    if not await _find_deletable(log, now_ms):
        return []
    async with log.maintenance_lock():
        deletable = await _find_deletable(log, now_ms)
        if len(deletable) == len(log.segments):
            log.roll(now_ms, needs_room=False)
            # A log found without segments would restart at offset 0.
            await log.sync_names()
            deletable = (await _find_deletable(log, now_ms))[: len(log.segments) - 1]
        if deletable:
            _schedule_delete(log, log.segments.drop_first(len(deletable)), monotonic_ms)
            start, truncation_count = log.segments[0].base_offset, log.truncation_count
            await log.sync_names()
            # Not earlier: if the segments reappear after a crash, they must be scanned.
            if truncation_count == log.truncation_count:
                log.recovery_point = max(log.recovery_point, start)
        return deletable


async def _find_deletable(log: LocalLog, now_ms: int) -> list[DeletableSegment]:
    """Return the deletable segments; timestamps are read on a thread before the decision."""
    count = 1
    while True:
        log.disk_health.check()
        stats = LogStats(log.log_start_offset, log.high_watermark, log.size_bytes)
        segments = log.segments.stats(log.log_end_offset, with_timestamps=log.config.deletes_by_time)
        try:
            return find_deletable_segments(segments, stats, log.config, now_ms)
        except TimestampsNotLoaded as error:
            await _load_timestamps(log, error.segment, count)
            count = page_in.SEGMENTS_AT_ONCE  # the first one is often the only one needed


async def _load_timestamps(log: LocalLog, first: LogSegment, count: int) -> None:
    """Load the timestamps of a segment and some after it."""
    try:
        await page_in.load_timestamps(log.segments, log.segments.segments_from(first.base_offset)[:count])
    except OSError as error:
        if first in log.segments:  # otherwise it was removed meanwhile
            raise log.disk_health.error_for(error, "search") from error


def _schedule_delete(log: LocalLog, segments: Sequence[LogSegment], monotonic_ms: int) -> None:
    """Rename segments that were removed from the start of the log."""
    start = log.segments[0].base_offset
    if start > log.log_start_offset:
        log.advance_log_start_offset(start)
    try:
        log.pending_deletes.add(segments, monotonic_ms + log.config.file_delete_delay_ms)
    except OSError as error:
        raise log.disk_health.error_for(error, "rename segments of") from error


async def delete_pending_segments(log: LocalLog, monotonic_ms: int) -> int:
    """Delete the files of removed segments that are due; return the number of segments."""
    try:
        return await log.pending_deletes.remove_due(monotonic_ms)
    except OSError as error:
        raise log.disk_health.error_for(error, "delete segments of") from error
