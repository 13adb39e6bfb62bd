"""Which segments of a log are due to go, and why. Decides only; the log carries it out.

Segments go from the oldest on, up to the first that stays: a log has no holes. One goes if the log starts
behind it, if without it the log still has ``retention.bytes``, or if its newest record is older than
``retention.ms``; -1 of either means no bound. Size and time count only where ``cleanup.policy`` has
``delete``.

Nothing at or above the high watermark goes, nor a last segment that is empty. A last segment that is not may
be due: a new one must be begun first.

Age is the wall clock less the largest timestamp. Where the clock stands before a timestamp, because it was
set back or because a producer's is ahead, the age is negative, and the segment stays with all that follow it
until the clock has come that far: deleting late can be mended, deleting early cannot.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from odradek.log.log_config import LogConfig


class DeletionReason(StrEnum):
    START = "the log starts behind it"
    SIZE = "retention.bytes"
    TIME = "retention.ms"


class SegmentStats(NamedTuple):
    """``end_offset`` is where the next segment begins, or the log ends. ``newest_ms`` is the largest
    timestamp or, where records have none, when the file was last written."""

    base_offset: int
    end_offset: int
    size_bytes: int
    newest_ms: int
    is_last: bool


class LogStats(NamedTuple):
    log_start_offset: int
    high_watermark: int
    size_bytes: int
    """Of all segments together."""


class DeletableSegment(NamedTuple):
    base_offset: int
    size_bytes: int
    reason: DeletionReason


def find_deletable_segments(
    segments: Iterable[SegmentStats], of: LogStats, config: LogConfig, now_ms: int
) -> list[DeletableSegment]:
    """The segments that go, oldest first. Looks at no segment after the first that stays."""
    due = []
    surplus = of.size_bytes - config.retention_bytes
    for segment in segments:
        reason = _why(segment, of, config, surplus, now_ms)
        if reason is None:
            break
        due.append(DeletableSegment(segment.base_offset, segment.size_bytes, reason))
        surplus -= segment.size_bytes
    return due


def _why(
    segment: SegmentStats, of: LogStats, config: LogConfig, surplus: int, now_ms: int
) -> DeletionReason | None:
    """``surplus`` is how much the log, from this segment on, has above ``retention.bytes``."""
    if segment.end_offset > of.high_watermark or (segment.is_last and not segment.size_bytes):
        return None
    if not segment.is_last and segment.end_offset <= of.log_start_offset:
        return DeletionReason.START
    if "delete" not in config.cleanup_policy:
        return None
    if config.retention_bytes >= 0 and segment.size_bytes <= surplus:
        return DeletionReason.SIZE
    if config.retention_ms >= 0 and now_ms - segment.newest_ms > config.retention_ms:
        return DeletionReason.TIME
    return None
