"""The port for files.

Calls are fast unless documented to wait: they use the page cache. The event loop runs calls that may wait
for a disk (``sync``, ``sync_dir``, scans) through ``FileSystem.offload``, and reads of uncached data
(``File.is_cached``) through ``offload_read``. Errors are ``OSError`` with the operating system's errno.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

T = TypeVar("T")
Buffer = bytes | bytearray | memoryview


class Space(NamedTuple):
    """Space of the file system that a path is on."""

    total_bytes: int
    usable_bytes: int
    """Bytes this process may still write."""


class File(Protocol):
    """An open file. Positions are explicit, except for ``append``, which writes at the end."""

    @property
    def path(self) -> str: ...

    def size(self) -> int: ...

    def append(self, data: Buffer) -> int:
        """Write all of ``data`` at the end; return its position. After an error the end is undefined."""
        ...

    def read_at(self, position: int, size_bytes: int) -> bytes:
        """Read up to ``size_bytes`` bytes; fewer only at the end of the file."""
        ...

    def read_cached(self, position: int, size_bytes: int) -> bytes | None:
        """The same, if this range is in the page cache, or the system cannot tell; else None. Never waits."""
        ...

    def is_cached(self, position: int, size_bytes: int) -> bool:
        """Return whether this range is in the page cache, judging by a few probes.

        Never waits. True if the system cannot tell, and for a range beyond the end.
        """
        ...

    def page_in(self, position: int, size_bytes: int) -> None:
        """Load this range into the page cache, and start read-ahead of what follows. Waits."""
        ...

    def write_at(self, position: int, data: Buffer) -> None: ...

    def truncate(self, size_bytes: int) -> None: ...

    def sync(self) -> None:
        """Flush all writes to the disk. Waits."""
        ...

    def map(self) -> memoryview:
        """Map the whole file read-only; for files that no longer change. Works for empty files."""
        ...

    def fileno(self) -> int:
        """Return the descriptor for ``sendfile``; -1 if there is none."""
        ...

    def close(self) -> None: ...


class FileLock(Protocol):
    def release(self) -> None: ...


class FileSystem(Protocol):
    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File: ...

    def open_cached(self, path: str) -> File | None:
        """Open a file for reading if that needs no disk access; else, and after any error, return None."""
        ...

    def open_files_max(self) -> int:
        """Return how many files and connections this process may have open."""
        ...

    def exists(self, path: str) -> bool: ...

    def size_of(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Set a file's modification time."""
        ...

    def list_names(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        ...

    def list_files(self, path: str) -> dict[str, int]:
        """Return the regular files of a directory with their sizes, in one pass, unordered."""
        ...

    def is_directory(self, path: str) -> bool: ...

    def absolute(self, path: str) -> str:
        """Return the absolute path without dots; links are kept. The path need not exist."""
        ...

    def space(self, path: str) -> Space:
        """Return the space of the file system of this file or directory. Waits."""
        ...

    def make_directories(self, path: str) -> None: ...

    def rename(self, old: str, new: str) -> None:
        """Rename atomically, replacing ``new``. Durable only after ``sync_dir`` of the directory."""
        ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def sync_dir(self, path: str) -> None: ...

    def sync_all(self, paths: Sequence[str]) -> None:
        """Flush files and directories to the disk, together: faster than one after the other. Waits."""
        ...

    def read_whole(self, path: str) -> bytes: ...

    def write_whole(self, path: str, data: bytes) -> None:
        """Replace the file atomically and durably: temporary file, sync, rename, sync of the directory."""
        ...

    def lock(self, path: str) -> FileLock:
        """Take an exclusive lock on a file, creating it; ``BlockingIOError`` if another process holds it."""
        ...

    def offload(self, work: Callable[[], T]) -> Awaitable[T]:
        """Run work that may wait for a disk off the event loop (in a simulation: immediately)."""
        ...

    def offload_read(self, work: Callable[[], T]) -> Awaitable[T]:
        """The same for reads, on separate threads: reads of old data must not delay a sync."""
        ...


class FileSlice:
    """A range of a file, to be sent or read later. The file stays open while slices of it are in use.

    An ``is_recent`` slice was just written or read by this process, and is in the page cache without a check.
    """

    __slots__ = ("file", "is_recent", "position", "size_bytes")

    def __init__(self, file: File, position: int, size_bytes: int, is_recent: bool = False) -> None:
        self.file = file
        self.position = position
        self.size_bytes = size_bytes
        self.is_recent = is_recent

    def __len__(self) -> int:
        return self.size_bytes

    def read(self) -> bytes:
        return self.file.read_at(self.position, self.size_bytes)

    def read_cached(self) -> bytes | None:
        """The same, if the range is in the page cache; else None."""
        return self.read() if self.is_recent else self.file.read_cached(self.position, self.size_bytes)

    def starts_cached(self, size_bytes_max: int) -> bool:
        """Return whether the first ``size_bytes_max`` bytes, or all if fewer, are in the page cache."""
        return self.is_recent or self.file.is_cached(self.position, min(self.size_bytes, size_bytes_max))

    def without_first(self, count: int) -> FileSlice:
        return FileSlice(self.file, self.position + count, self.size_bytes - count, self.is_recent)


Part = Buffer | FileSlice
"""A part of a response: bytes, or a range of a file that the network port may send without copying."""

Parts = Sequence[Part]
