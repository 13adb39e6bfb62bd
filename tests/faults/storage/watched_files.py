"""A file system that reports each operation before it is made, by name and path.

The callback may abort: a test in memory by raising, a process by killing itself. So every step of a roll, a
deletion or a compaction can be interrupted without hooks in the product. Compound calls of the port
(``write_whole``, ``remove_tree``) are reported step by step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Listener = Callable[[str, str], None]
"""Called with operation and path before each operation."""


class WatchedFile:
    """A file whose writes, truncations and syncs are reported. Other calls are delegated."""

    def __init__(self, inner: Any, tell: Listener) -> None:
        self._inner = inner
        self._tell = tell
        self.path = inner.path
        for name in ("size", "read_at", "map", "fileno", "close"):
            setattr(self, name, getattr(inner, name))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def append(self, data: Any) -> int:
        self._tell("append", self.path)
        return int(self._inner.append(data))

    def write_at(self, position: int, data: Any) -> None:
        self._tell("write", self.path)
        self._inner.write_at(position, data)

    def truncate(self, size_bytes: int) -> None:
        self._tell("truncate", self.path)
        self._inner.truncate(size_bytes)

    def sync(self) -> None:
        self._tell("sync", self.path)
        self._inner.sync()


class WatchedFiles:
    """Wraps a file system. ``tell`` may be replaced at any time."""

    def __init__(self, inner: Any, tell: Listener = lambda _, __: None) -> None:
        self.inner = inner
        self.tell = tell

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def _notify(self, operation: str, path: str) -> None:
        self.tell(operation, path)

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> WatchedFile:
        if create and not self.inner.exists(path):
            self.tell("create", path)
        return WatchedFile(self.inner.open(path, create=create, writable=writable), self._notify)

    def make_directories(self, path: str) -> None:
        if not self.inner.exists(path):
            self.tell("make", path)
        self.inner.make_directories(path)

    def rename(self, old: str, new: str) -> None:
        self.tell("rename", new)
        self.inner.rename(old, new)

    def remove(self, path: str) -> None:
        self.tell("remove", path)
        self.inner.remove(path)

    def remove_tree(self, path: str) -> None:
        for name in self.inner.list_names(path):
            inside = f"{path}/{name}"
            if self.inner.is_directory(inside):
                self.remove_tree(inside)
            else:
                self.remove(inside)
        self.tell("remove", path)
        self.inner.remove_tree(path)

    def sync_dir(self, path: str) -> None:
        self.tell("sync", path)
        self.inner.sync_dir(path)

    def write_whole(self, path: str, data: bytes) -> None:
        temporary = f"{path}.tmp"
        file = self.open(temporary, create=True)
        try:
            file.truncate(0)
            file.append(data)
            file.sync()
        finally:
            file.close()
        self.rename(temporary, path)
        self.sync_dir(path.rpartition("/")[0] or "/")
