"""Segments that are no longer part of a log, until their files are removed.

They are renamed when they go and removed after ``file.delete.delay.ms``: whoever still sends from them goes
on, and so does whoever looked up their names just before.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.log.segments.log_segment import LogSegment
from odradek.ports.files import FileSystem


class PendingSegmentDeletes:
    __slots__ = ("_files", "_segments")

    def __init__(self, files: FileSystem) -> None:
        self._files = files
        self._segments: list[tuple[int, LogSegment]] = []

    def add(self, segments: Iterable[LogSegment], due_ms: int, *, keeps_snapshots: bool = False) -> None:
        """Mark segments as going, the oldest first: of these names, too, a crash leaves a log without a hole.

        ``due_ms`` is when their files may be removed, by the monotonic clock.
        """
        for segment in segments:
            segment.mark_deleted(keeps_snapshot=keeps_snapshots)
            self._segments.append((due_ms, segment))

    async def remove_due(self, now_ms: int) -> int:
        """Remove the files of segments whose time has come; give the number of segments."""
        due = [segment for due_ms, segment in self._segments if due_ms <= now_ms]
        if not due:
            return 0
        self._segments = [(due_ms, segment) for due_ms, segment in self._segments if due_ms > now_ms]

        def work() -> None:
            for segment in due:
                segment.remove_marked()

        await self._files.offload(work)
        return len(due)
