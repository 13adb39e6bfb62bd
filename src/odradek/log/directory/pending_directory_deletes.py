"""Directories of deleted logs: renamed at once, removed after ``file.delete.delay.ms``."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from odradek.ports.files import FileSystem


class PendingDirectoryDeletes:
    __slots__ = ("_due", "_files")

    def __init__(self, files: FileSystem) -> None:
        self._files = files
        self._due: list[tuple[int, str]] = []

    def add(self, path: str, due_ms: int) -> None:
        self._due.append((due_ms, path))

    def clear(self) -> None:
        self._due.clear()

    async def remove_due(self, now_ms: int) -> int:
        """Remove the directories that are due; return their number. One that cannot be removed stays due."""
        due = [path for due_ms, path in self._due if due_ms <= now_ms]
        self._due = [(due_ms, path) for due_ms, path in self._due if due_ms > now_ms]
        for path in due:
            try:
                await self._files.offload(partial(self._remove, path))
            except OSError:
                self._due.append((now_ms, path))
                raise
        return len(due)

    def _remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self._files.remove_tree(path)
