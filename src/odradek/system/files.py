"""The real file system, behind the port.

A descriptor is closed when its ``File`` is closed or garbage collected, whichever comes first: a slice of a
file that is still being sent keeps the descriptor open although the log has dropped the file. Locks are
POSIX record locks, as a JVM takes on the same file, so the two exclude each other; since those do not
exclude within one process, a table of held paths does.

``is_cached`` probes a range with ``preadv`` and ``RWF_NOWAIT`` at a few positions, because pages are cached
and evicted in long runs. A probe that fails makes the kernel read that page, so a range is probed once, and
paged in whole if it is not cached. File systems without the flag (tmpfs, some network file systems) count
as cached.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import mmap
import os
import resource
import shutil
import sys
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from odradek.compiled_modules import mypyc_attr
from odradek.ports.files import Buffer, Space
from odradek.system.cached_open import CachedOpen

T = TypeVar("T")

THREADS_DEFAULT = 8
# More readers would only make a disk seek more; separate threads, so that syncs are not starved.
READ_THREADS_MAX = 4
# One page is probed per step of this size, and the last one.
PROBE_STEP_BYTES = 256 * 1024
# Read-ahead after a page-in, so that the disk works while the range before is being sent.
READ_AHEAD_BYTES = 1024 * 1024
# Descriptors open at a time while files are synced together.
SYNCED_TOGETHER = 64

_NOWAIT: int | None = getattr(os, "RWF_NOWAIT", None)
_PROBE_BUFFER = [bytearray(1)]

_HELD: set[str] = set()  # per process, like the locks themselves


class RealFile:
    """A descriptor and the cached size of its file; no other writer is expected."""

    __slots__ = ("_descriptor", "_path", "_size")

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._size = -1

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        if self._size < 0:
            self._size = os.lseek(self._descriptor, 0, os.SEEK_END)
        return self._size

    def append(self, data: Buffer) -> int:
        position = self._size
        if position < 0:
            position = self.size()
        self._size = -1
        written = os.pwrite(self._descriptor, data, position)
        size_bytes = len(data)
        if written != size_bytes:
            self._write_rest(position, data, written)
        self._size = position + size_bytes
        return position

    def _write_rest(self, position: int, data: Buffer, written: int) -> None:
        view = memoryview(data)
        while written < len(view):
            written += os.pwrite(self._descriptor, view[written:], position + written)

    def read_at(self, position: int, size_bytes: int) -> bytes:
        data = os.pread(self._descriptor, size_bytes, position)
        if len(data) == size_bytes or not data:
            return data
        parts = [data]
        received = len(data)
        while received < size_bytes and data:
            data = os.pread(self._descriptor, size_bytes - received, position + received)
            parts.append(data)
            received += len(data)
        return b"".join(parts)

    def read_cached(self, position: int, size_bytes: int) -> bytes | None:
        if _NOWAIT is None:
            return self.read_at(position, size_bytes)
        buffer = bytearray(size_bytes)
        try:
            received = os.preadv(self._descriptor, (buffer,), position, _NOWAIT)
            if received < size_bytes and received and not self._ends_at(position + received):
                return None  # only the first pages are cached
        except BlockingIOError:
            return None
        except OSError:
            return self.read_at(position, size_bytes)  # the flag is not supported, or this raises the error
        return bytes(buffer) if received == size_bytes else bytes(buffer[:received])

    def _ends_at(self, position: int) -> bool:
        return os.preadv(self._descriptor, _PROBE_BUFFER, position, _NOWAIT or 0) == 0

    def is_cached(self, position: int, size_bytes: int) -> bool:
        if _NOWAIT is None or size_bytes <= 0:
            return True
        descriptor, byte = self._descriptor, _PROBE_BUFFER
        try:
            for probe_position in range(position, position + size_bytes - 1, PROBE_STEP_BYTES):
                os.preadv(descriptor, byte, probe_position, _NOWAIT)
            os.preadv(descriptor, byte, position + size_bytes - 1, _NOWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True  # unknown; the read itself will raise any error
        return True

    def page_in(self, position: int, size_bytes: int) -> None:
        dev_null = os.open(os.devnull, os.O_WRONLY)
        try:
            end = position + size_bytes
            while position < end:
                # sendfile to /dev/null loads the pages without copying them.
                loaded = os.sendfile(dev_null, self._descriptor, position, end - position)
                if loaded == 0:
                    return
                position += loaded
            os.posix_fadvise(self._descriptor, end, READ_AHEAD_BYTES, os.POSIX_FADV_WILLNEED)
        finally:
            os.close(dev_null)

    def write_at(self, position: int, data: Buffer) -> None:
        self._size = -1
        self._write_rest(position, data, os.pwrite(self._descriptor, data, position))

    def truncate(self, size_bytes: int) -> None:
        self._size = -1
        os.ftruncate(self._descriptor, size_bytes)
        self._size = size_bytes

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def map(self) -> memoryview:
        if os.fstat(self._descriptor).st_size == 0:
            return memoryview(b"")
        return memoryview(mmap.mmap(self._descriptor, 0, access=mmap.ACCESS_READ))

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


class RealFileLock:
    def __init__(self, file: RealFile) -> None:
        self._file = file

    def release(self) -> None:
        self._file.close()
        _HELD.discard(self._file.path)


@mypyc_attr(allow_interpreted_subclasses=True)
class RealFileSystem:
    """The local file system, with threads for work that may wait."""

    def __init__(self, threads_max: int = THREADS_DEFAULT, read_threads_max: int = READ_THREADS_MAX) -> None:
        self._threads_max = threads_max
        self._read_threads_max = read_threads_max
        self._pool: ThreadPoolExecutor | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._cached_open = CachedOpen()

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> RealFile:
        flags = (os.O_RDWR if writable else os.O_RDONLY) | (os.O_CREAT if create else 0)
        return RealFile(path, os.open(path, flags, 0o644))

    def open_cached(self, path: str) -> RealFile | None:
        descriptor = self._cached_open.open(path)
        return RealFile(path, descriptor) if descriptor >= 0 else None

    def open_files_max(self) -> int:
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return sys.maxsize if limit == resource.RLIM_INFINITY else limit

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size_of(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def list_names(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def list_files(self, path: str) -> dict[str, int]:
        with os.scandir(path) as entries:
            return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def absolute(self, path: str) -> str:
        return os.path.abspath(path)

    def space(self, path: str) -> Space:
        stats = os.statvfs(path)
        return Space(stats.f_blocks * stats.f_frsize, stats.f_bavail * stats.f_frsize)

    def make_directories(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_tree(self, path: str) -> None:
        shutil.rmtree(path)

    def sync_dir(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sync_all(self, paths: Sequence[str]) -> None:
        for first in range(0, len(paths), SYNCED_TOGETHER):
            self._sync_together(paths[first : first + SYNCED_TOGETHER])

    def _sync_together(self, paths: Sequence[str]) -> None:
        descriptors: list[int] = []
        try:
            for path in paths:
                descriptors.append(os.open(path, os.O_RDONLY))
                # Starts to write, so that the journal has all of them in one commit.
                os.posix_fadvise(descriptors[-1], 0, 0, os.POSIX_FADV_DONTNEED)
            for descriptor in descriptors:
                os.fsync(descriptor)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def read_whole(self, path: str) -> bytes:
        with open(path, "rb", buffering=0) as file:
            return file.readall()

    def write_whole(self, path: str, data: bytes) -> None:
        temporary = f"{path}.tmp"
        file = RealFile(temporary, os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644))
        try:
            file.append(data)
            file.sync()
        finally:
            file.close()
        os.replace(temporary, path)
        self.sync_dir(os.path.dirname(path) or ".")

    def lock(self, path: str) -> RealFileLock:
        held_as = os.path.realpath(path)
        if held_as in _HELD:
            raise BlockingIOError(errno.EAGAIN, "already locked by this process", path)
        file = RealFile(held_as, os.open(path, os.O_RDWR | os.O_CREAT, 0o644))
        try:
            fcntl.lockf(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as failure:
            file.close()
            if failure.errno in {errno.EACCES, errno.EAGAIN}:
                raise BlockingIOError(errno.EAGAIN, "locked by another process", path) from None
            raise
        _HELD.add(held_as)
        return RealFileLock(file)

    def offload(self, work: Callable[[], T]) -> Awaitable[T]:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads_max, thread_name_prefix="odradek-files")
        return asyncio.get_running_loop().run_in_executor(self._pool, work)

    def offload_read(self, work: Callable[[], T]) -> Awaitable[T]:
        if self._readers is None:
            self._readers = ThreadPoolExecutor(self._read_threads_max, thread_name_prefix="odradek-reads")
        return asyncio.get_running_loop().run_in_executor(self._readers, work)

    def close(self) -> None:
        """Wait for the threads and stop them."""
        for pool in (self._pool, self._readers):
            if pool is not None:
                pool.shutdown(wait=True)
        self._pool = self._readers = None
