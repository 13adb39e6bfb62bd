"""Selection of the segments that retention deletes. Pure: the log carries out the deletion.

Segments are deleted from the oldest up to the first that is kept, so that a log has no gaps. A segment is
deletable if it ends at or before the log start offset, if the log has ``retention.bytes`` without it, or if
its largest timestamp is older than ``retention.ms``; -1 means no limit. Size and time apply only if
``cleanup.policy`` contains ``delete``.

Nothing at or above the high watermark is deleted, nor an empty active segment. If a non-empty active segment
is deletable, the log must roll first.

Age is wall clock time minus the largest timestamp. If the timestamp is in the future, because the clock was
set back or a producer's clock is ahead, the age is negative, and the segment and all after it are kept until
the clock catches up: deleting late can be corrected, deleting early cannot.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from odradek.log.log_config import LogConfig


class DeletionReason(StrEnum):
    START = "log start offset"
    SIZE = "retention.bytes"
    TIME = "retention.ms"


class SegmentStats(NamedTuple):
    """Retention input of one segment.

    ``end_offset`` is the base offset of the next segment, or the log end offset. ``largest_timestamp`` is the
    modification time of the file if records have no timestamps.
    """

    base_offset: int
    end_offset: int
    size_bytes: int
    largest_timestamp: int
    is_last: bool


class LogStats(NamedTuple):
    log_start_offset: int
    high_watermark: int
    size_bytes: int
    """Total size of all segments."""


class DeletableSegment(NamedTuple):
    base_offset: int
    size_bytes: int
    reason: DeletionReason


def find_deletable_segments(
    segments: Iterable[SegmentStats], log: LogStats, config: LogConfig, now_ms: int
) -> list[DeletableSegment]:
    """Return the deletable segments, oldest first. Does not access segments after the first that is kept."""
    deletable = []
    surplus = log.size_bytes - config.retention_bytes
    for segment in segments:
        reason = _deletion_reason(segment, log, config, surplus, now_ms)
        if reason is None:
            break
        deletable.append(DeletableSegment(segment.base_offset, segment.size_bytes, reason))
        surplus -= segment.size_bytes
    return deletable


def _deletion_reason(
    segment: SegmentStats, log: LogStats, config: LogConfig, surplus: int, now_ms: int
) -> DeletionReason | None:
    """Return why a segment is deletable, if it is.

    ``surplus`` is the size of the log from this segment on, minus ``retention.bytes``.
    """
    if segment.end_offset > log.high_watermark or (segment.is_last and not segment.size_bytes):
        return None
    if not segment.is_last and segment.end_offset <= log.log_start_offset:
        return DeletionReason.START
    if "delete" not in config.cleanup_policy:
        return None
    if config.retention_bytes >= 0 and segment.size_bytes <= surplus:
        return DeletionReason.SIZE
    if config.retention_ms >= 0 and now_ms - segment.largest_timestamp > config.retention_ms:
        return DeletionReason.TIME
    return None
