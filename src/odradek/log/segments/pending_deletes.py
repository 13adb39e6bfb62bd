"""Segments removed from a log whose files are not deleted yet.

Files are renamed to ``.deleted`` at once and deleted after ``file.delete.delay.ms``, so that reads in
progress can finish.
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
        """Rename segments to ``.deleted``, oldest first, so that a crash in between leaves no gap.

        ``due_ms`` is the earliest time of deletion, by the monotonic clock.
        """
        for segment in segments:
            segment.mark_deleted(keeps_snapshot=keeps_snapshots)
            self._segments.append((due_ms, segment))

    async def remove_due(self, now_ms: int) -> int:
        """Delete the files of segments that are due; return the number of segments."""
        due = [segment for due_ms, segment in self._segments if due_ms <= now_ms]
        if not due:
            return 0
        self._segments = [(due_ms, segment) for due_ms, segment in self._segments if due_ms > now_ms]

        def work() -> None:
            for segment in due:
                segment.remove_marked()

        await self._files.offload(work)
        return len(due)
