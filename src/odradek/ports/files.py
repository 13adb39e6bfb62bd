"""The port for files.

Plain calls are quick: they touch the page cache and return. What may wait for a disk (``sync``, ``sync_dir``,
a scan) is run through ``FileSystem.offload`` by whoever must not wait, and so is a read of what is not in
memory, through ``offload_read``; ``File.is_cached`` tells. Errors are ``OSError`` with their errno, as the
operating system gives them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

T = TypeVar("T")
Buffer = bytes | bytearray | memoryview


class Space(NamedTuple):
    """The file system that a path is on."""

    total_bytes: int
    usable_bytes: int
    """What this process may still write."""


class File(Protocol):
    """An open file. Positions are given, never kept, but for ``append``, which writes at the end."""

    @property
    def path(self) -> str: ...

    def size(self) -> int: ...

    def append(self, data: Buffer) -> int:
        """Write all of ``data`` at the end; give where it begins. After an error the end is unknown."""
        ...

    def read_at(self, position: int, size_bytes: int) -> bytes:
        """Up to ``size_bytes`` bytes; fewer only at the end of the file."""
        ...

    def is_cached(self, position: int, size_bytes: int) -> bool:
        """Whether this range can be read without waiting for a disk, as far as a few probes tell.

        Never waits. True where the system cannot tell, and of what lies behind the end.
        """
        ...

    def page_in(self, position: int, size_bytes: int) -> None:
        """Have this range in memory, and let the system begin to read what follows it. Waits."""
        ...

    def write_at(self, position: int, data: Buffer) -> None: ...

    def truncate(self, size_bytes: int) -> None: ...

    def sync(self) -> None:
        """Return once all that was written is on the disk. Waits."""
        ...

    def map(self) -> memoryview:
        """The whole file, read-only, mapped; for files that change no more. Empty ones give an empty view."""
        ...

    def fileno(self) -> int:
        """For ``sendfile``. -1 if there is no descriptor behind this file."""
        ...

    def close(self) -> None: ...


class FileLock(Protocol):
    def release(self) -> None: ...


class FileSystem(Protocol):
    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File: ...

    def exists(self, path: str) -> bool: ...

    def size_of(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Let a file pass for last written then."""
        ...

    def list_names(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        ...

    def list_files(self, path: str) -> dict[str, int]:
        """Plain files of a directory and their sizes, in one pass over it, in no order."""
        ...

    def is_directory(self, path: str) -> bool: ...

    def absolute(self, path: str) -> str:
        """The same place from the root, without dots; links are kept. The path need not exist."""
        ...

    def space(self, path: str) -> Space:
        """How large the file system of this file or directory is. Waits."""
        ...

    def make_directories(self, path: str) -> None: ...

    def rename(self, old: str, new: str) -> None:
        """Atomic; replaces ``new``. Durable only after ``sync_dir`` of the directory."""
        ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def sync_dir(self, path: str) -> None: ...

    def read_whole(self, path: str) -> bytes: ...

    def write_whole(self, path: str, data: bytes) -> None:
        """Replace the file in one step that survives a crash: write beside it, sync, rename, sync again."""
        ...

    def lock(self, path: str) -> FileLock:
        """Take an exclusive lock on a file, creating it; ``BlockingIOError`` if another process holds it."""
        ...

    def offload(self, work: Callable[[], T]) -> Awaitable[T]:
        """Run work that may wait for a disk away from the event loop (in a simulation: at once)."""
        ...

    def offload_read(self, work: Callable[[], T]) -> Awaitable[T]:
        """The same for reads, on threads of their own: whoever reads old data must not hold up a sync."""
        ...


class FileSlice:
    """A range of a file, to be sent or read later. The file stays open while slices of it are under way.

    One that ``is_recent`` was written by this process a moment ago: nobody need ask whether it is in memory.
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

    def starts_cached(self, size_bytes_max: int) -> bool:
        """Whether the first so many bytes, or all if there are fewer, can be had without waiting."""
        return self.is_recent or self.file.is_cached(self.position, min(self.size_bytes, size_bytes_max))

    def without_first(self, count: int) -> FileSlice:
        return FileSlice(self.file, self.position + count, self.size_bytes - count, self.is_recent)


Part = Buffer | FileSlice
"""A piece of an answer: bytes, or a range of a file that the network port may send without copying."""

Parts = Sequence[Part]
