"""Files in memory with realistic crashes.

Unsynced writes may be lost in a crash: of a file's writes since its last ``sync`` a crash keeps a random
prefix, and may tear the next write (truncated, with a flipped last byte, or zero-filled). Names are a
separate journal: a create, remove or rename is durable once a directory it touches is synced; of the rest a
crash keeps a random prefix. A file whose name never became durable is lost, including synced data. A crash
invalidates open files.

A test may evict bytes from the page cache (``evict_from_cache``). A read of these that is neither offloaded
nor preceded by ``page_in`` would have blocked the event loop: it is counted in ``blocking_reads``.
"""

from __future__ import annotations

import asyncio
import errno
import os
import posixpath
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import lru_cache
from typing import Final, TypeVar

from odradek.ports.entropy import Entropy
from odradek.ports.files import Buffer, Space

T = TypeVar("T")

DISK_BYTES: Final = 1 << 40
"""Reported disk size; not enforced."""
OPEN_FILES_MAX: Final = 1 << 16
"""Reported limit; not enforced."""
PATHS_MAX: Final = 4096
"""Paths of which the names are cached."""


class _Inode:
    """Contents of one file: current, durable, and the pending writes in between."""

    __slots__ = ("cold", "data", "durable", "modified_ms", "pending")

    def __init__(self, modified_ms: int, data: bytes = b"") -> None:
        self.data = bytearray(data)
        self.durable = bytes(data)
        self.pending: list[tuple[int, bytes | None]] = []  # position and data; None truncates at the position
        self.modified_ms = modified_ms
        self.cold: list[range] = []

    def is_cold(self, position: int, size_bytes: int) -> bool:
        return bool(self.cold) and any(
            cold_range.start < position + size_bytes and position < cold_range.stop
            for cold_range in self.cold
        )

    def warm(self, position: int, size_bytes: int) -> None:
        end = position + size_bytes
        rest = [
            (
                range(cold_range.start, min(cold_range.stop, position)),
                range(max(cold_range.start, end), cold_range.stop),
            )
            for cold_range in self.cold
        ]
        self.cold = [cold_range for pair in rest for cold_range in pair if cold_range]

    def change(self, position: int, data: bytes | None) -> None:
        self.pending.append((position, data))
        _apply(self.data, position, data)

    def sync(self) -> None:
        self.durable = bytes(self.data)
        self.pending.clear()

    def crash(self, entropy: Entropy) -> None:
        content = bytearray(self.durable)
        kept = entropy.below(len(self.pending) + 1)
        for position, data in self.pending[:kept]:
            _apply(content, position, data)
        for position, data in self.pending[kept : kept + 1]:
            if data is not None:
                _apply(content, position, _tear(data, entropy))
        self.data = content
        self.sync()


def _apply(content: bytearray, position: int, data: bytes | None) -> None:
    if data is None:
        del content[position:]
        content.extend(bytes(position - len(content)))
    else:
        content.extend(bytes(max(0, position - len(content))))
        content[position : position + len(data)] = data


def _tear(data: bytes, entropy: Entropy) -> bytes:
    kept = data[: entropy.below(len(data) + 1)]
    match entropy.below(4):
        case 0 if kept:
            return kept[:-1] + bytes([kept[-1] ^ 0xFF])
        case 1:
            return kept + bytes(len(data) - len(kept))
        case _:
            return kept


class MemoryFile:
    def __init__(self, files: MemoryFileSystem, path: str, inode: _Inode, writable: bool) -> None:
        self._files = files
        self._path = path
        self._inode = inode
        self._writable = writable
        self._crash_count = files.crashes

    @property
    def path(self) -> str:
        return self._path

    def _require_open(self, *, to_write: bool = False) -> _Inode:
        if self._crash_count != self._files.crashes or (to_write and not self._writable):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self._path)
        return self._inode

    def size(self) -> int:
        return len(self._require_open().data)

    def append(self, data: Buffer) -> int:
        position = self.size()
        self.write_at(position, data)
        return position

    def read_at(self, position: int, size_bytes: int) -> bytes:
        inode = self._require_open()
        self._files.touch(inode, position, size_bytes)
        return bytes(inode.data[position : position + size_bytes])

    def read_cached(self, position: int, size_bytes: int) -> bytes | None:
        return self.read_at(position, size_bytes) if self.is_cached(position, size_bytes) else None

    def is_cached(self, position: int, size_bytes: int) -> bool:
        return not self._require_open().is_cold(position, size_bytes)

    def page_in(self, position: int, size_bytes: int) -> None:
        self._require_open().warm(position, size_bytes)

    def write_at(self, position: int, data: Buffer) -> None:
        inode = self._require_open(to_write=True)
        self._files.write(self._path, inode, position, bytes(data))

    def truncate(self, size_bytes: int) -> None:
        self._require_open(to_write=True).change(size_bytes, None)

    def sync(self) -> None:
        inode = self._require_open()
        self._files.refuse_sync(self._path)
        inode.sync()

    def map(self) -> memoryview:
        inode = self._require_open()
        self._files.touch(inode, 0, len(inode.data))
        return memoryview(bytes(inode.data))

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        self._crash_count = -1


class MemoryFileLock:
    def __init__(self, held: set[str], path: str) -> None:
        self._held = held
        self._path = path

    def release(self) -> None:
        self._held.discard(self._path)


class _Directory:
    """Files and directories by their names: now, and after a crash.

    A directory is known by identity, as on a disk: its path may be that of another one that was renamed, and
    whose new name is not durable yet.
    """

    __slots__ = ("durable", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, _Inode | _Directory] = {}
        self.durable: dict[str, _Inode | _Directory] = {}

    def files(self) -> Iterator[_Inode]:
        """Return all files below."""
        for entry in self.entries.values():
            if isinstance(entry, _Directory):
                yield from entry.files()
            else:
                yield entry

    def crash(self, entropy: Entropy) -> None:
        self.entries = dict(self.durable)
        for entry in self.entries.values():
            entry.crash(entropy)


class _NameChange:
    """A create, remove or rename: the entries that it sets together, or removes (None)."""

    __slots__ = ("_entries",)

    def __init__(self, *entries: tuple[_Directory, str, _Inode | _Directory | None]) -> None:
        self._entries = entries

    def touches(self, directories: set[int]) -> bool:
        """Return whether it changes one of these directories, given by their ``id``."""
        return any(id(directory) in directories for directory, _, _ in self._entries)

    def apply(self) -> None:
        for directory, name, entry in self._entries:
            _set_entry(directory.entries, name, entry)

    def make_durable(self) -> None:
        for directory, name, entry in self._entries:
            _set_entry(directory.durable, name, entry)


def _set_entry(entries: dict[str, _Inode | _Directory], name: str, entry: _Inode | _Directory | None) -> None:
    if entry is None:
        entries.pop(name, None)
    else:
        entries[name] = entry


class MemoryFileSystem:
    """A file system in memory. Relative paths are relative to the root."""

    def __init__(self, now_ms: Callable[[], int] = lambda: 0) -> None:
        self.crashes = 0
        self.blocking_reads = 0
        self.draw_delay_s: Callable[[], float] | None = None
        """Duration of the next work that is offloaded; None on a disk that takes no time."""
        self._is_offloaded = False
        self._now_ms = now_ms
        self._root = _Directory()
        self._journal: list[_NameChange] = []
        self._locked: set[str] = set()
        self._write_failure: tuple[int, int, str] | None = None
        self._sync_failure: tuple[int, str] | None = None

    # Faults.

    def crash(self, entropy: Entropy) -> None:
        """Simulate a power failure: keep durable data and a random part of the rest."""
        self.crashes += 1
        kept = entropy.below(len(self._journal) + 1)
        for change in self._journal[:kept]:
            change.make_durable()
        self._journal.clear()
        self._root.crash(entropy)
        self._locked.clear()

    def end_process(self) -> None:
        """Simulate the death of the process: files keep all writes, open files and locks are gone."""
        self.crashes += 1
        self._locked.clear()

    def fail_next_write(self, code: int, *, written: int = 0, name_end: str = "") -> None:
        """Fail the next write (to a file whose name ends with ``name_end``) after ``written`` bytes."""
        self._write_failure = (code, written, name_end)

    def fail_next_sync(self, code: int, *, name_end: str = "") -> None:
        """Fail the next sync (of a file or directory whose name ends with ``name_end``)."""
        self._sync_failure = (code, name_end)

    def clear_failures(self) -> None:
        """Fail no write or sync any more."""
        self._write_failure = self._sync_failure = None

    def evict_from_cache(self, path: str, position: int = 0, size_bytes: int = DISK_BYTES) -> None:
        """Evict a range of a file from the page cache, until it is read."""
        self._file(path).cold.append(range(position, position + size_bytes))

    def durable_size(self, path: str) -> int:
        """Return how many bytes of a file, from its first one, no power failure changes."""
        inode = self._file(path)
        return min((position for position, _ in inode.pending), default=len(inode.data))

    # Used by files.

    def touch(self, inode: _Inode, position: int, size_bytes: int) -> None:
        if inode.is_cold(position, size_bytes):
            self.blocking_reads += not self._is_offloaded
            inode.warm(position, size_bytes)

    def write(self, path: str, inode: _Inode, position: int, data: bytes) -> None:
        failure = self._write_failure
        inode.modified_ms = self._now_ms()
        if failure is not None and path.endswith(failure[2]):
            self._write_failure = None
            inode.change(position, data[: failure[1]])
            raise OSError(failure[0], os.strerror(failure[0]), path)
        inode.change(position, data)

    def refuse_sync(self, path: str) -> None:
        failure = self._sync_failure
        if failure is not None and path.endswith(failure[1]):
            self._sync_failure = None
            raise OSError(failure[0], os.strerror(failure[0]), path)

    # The port.

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> MemoryFile:
        path = _absolute(path)
        if create and self._find(path) is None:
            self._change((*self._place(path), _Inode(self._now_ms())))
        return MemoryFile(self, path, self._file(path), writable)

    def open_cached(self, path: str) -> MemoryFile | None:
        try:
            return None if self._file(path).cold else self.open(path, writable=False)
        except OSError:
            return None

    def open_files_max(self) -> int:
        return OPEN_FILES_MAX

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def size_of(self, path: str) -> int:
        return len(self._file(path).data)

    def modified_ms(self, path: str) -> int:
        return self._file(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._file(path).modified_ms = modified_ms

    def list_names(self, path: str) -> list[str]:
        return sorted(self._directory(path).entries)

    def list_files(self, path: str) -> dict[str, int]:
        entries = self._directory(path).entries.items()
        return {name: len(inode.data) for name, inode in entries if isinstance(inode, _Inode)}

    def is_directory(self, path: str) -> bool:
        return isinstance(self._find(path), _Directory)

    def absolute(self, path: str) -> str:
        return _absolute(path)

    def space(self, path: str) -> Space:
        if not self.exists(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        used = sum(len(inode.data) for inode in self._root.files())
        return Space(DISK_BYTES, DISK_BYTES - used)

    def make_directories(self, path: str) -> None:
        path = _absolute(path)
        existing = self._find(path)
        if isinstance(existing, _Inode):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if existing is None:
            self.make_directories(posixpath.dirname(path))
            self._change((*self._place(path), _Directory()))

    def rename(self, old: str, new: str) -> None:
        entry = self._find(old)
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), old)
        place, replaced = self._place(new), self._find(new)
        if isinstance(replaced, _Directory) and replaced.entries:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), new)
        self._change((*self._place(old), None), (*place, entry))

    def remove(self, path: str) -> None:
        self._file(path)
        self._change((*self._place(path), None))

    def remove_tree(self, path: str) -> None:
        for name in self.list_names(path):
            inside = posixpath.join(path, name)
            if self.is_directory(inside):
                self.remove_tree(inside)
            else:
                self.remove(inside)
        self._change((*self._place(path), None))

    def sync_dir(self, path: str) -> None:
        directory = self._directory(path)
        self.refuse_sync(_absolute(path))
        self._make_durable({id(directory)})

    def sync_all(self, paths: Sequence[str]) -> None:
        directories = set()
        for path in paths:
            entry = self._find(path)
            if isinstance(entry, _Directory):
                self.refuse_sync(_absolute(path))
                directories.add(id(entry))
            else:
                self.open(path, writable=False).sync()
        if directories:
            self._make_durable(directories)

    def _make_durable(self, directories: set[int]) -> None:
        remaining = []
        for change in self._journal:
            if change.touches(directories):
                change.make_durable()
            else:
                remaining.append(change)
        self._journal = remaining

    def read_whole(self, path: str) -> bytes:
        inode = self._file(path)
        self.touch(inode, 0, len(inode.data))
        return bytes(inode.data)

    def write_whole(self, path: str, data: bytes) -> None:
        temporary = f"{path}.tmp"
        file = self.open(temporary, create=True)
        file.truncate(0)
        file.append(data)
        file.sync()
        file.close()
        self.rename(temporary, path)
        self.sync_dir(posixpath.dirname(_absolute(path)))

    def lock(self, path: str) -> MemoryFileLock:
        path = _absolute(path)
        if path in self._locked:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)
        self.open(path, create=True).close()
        self._locked.add(path)
        return MemoryFileLock(self._locked, path)

    def offload(self, work: Callable[[], T]) -> Awaitable[T]:
        return self._run_inline(work)

    def offload_read(self, work: Callable[[], T]) -> Awaitable[T]:
        return self._run_inline(work)

    async def _run_inline(self, work: Callable[[], T]) -> T:
        if self.draw_delay_s is not None:
            await asyncio.sleep(self.draw_delay_s())
        self._is_offloaded = True
        try:
            return work()
        finally:
            self._is_offloaded = False

    def _change(self, *entries: tuple[_Directory, str, _Inode | _Directory | None]) -> None:
        change = _NameChange(*entries)
        change.apply()
        self._journal.append(change)

    def _find(self, path: str) -> _Inode | _Directory | None:
        entry: _Inode | _Directory | None = self._root
        for name in _names(path):
            if type(entry) is not _Directory:
                return None
            entry = entry.entries.get(name)
        return entry

    def _place(self, path: str) -> tuple[_Directory, str]:
        """Return the directory of a path, and the name in it."""
        parent, name = _split(path)
        return self._directory(parent), name

    def _file(self, path: str) -> _Inode:
        entry = self._find(path)
        if isinstance(entry, _Directory):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return entry

    def _directory(self, path: str) -> _Directory:
        entry = self._find(path)
        if isinstance(entry, _Inode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return entry


@lru_cache(PATHS_MAX)
def _absolute(path: str) -> str:
    return posixpath.normpath(posixpath.join("/", path))


@lru_cache(PATHS_MAX)
def _split(path: str) -> tuple[str, str]:
    return posixpath.split(_absolute(path))


@lru_cache(PATHS_MAX)
def _names(path: str) -> tuple[str, ...]:
    """Return the names on the way from the root to a path."""
    return tuple(name for name in _absolute(path).split("/") if name)
