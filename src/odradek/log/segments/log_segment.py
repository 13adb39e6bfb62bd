"""A sealed segment: a file of batches with sparse offset and time indexes.

Files are opened and indexes read on first use, and released by ``OpenSegments`` when too many are open. A
missing or invalid index is rebuilt from the batches on first use: immediately if the caller may block,
otherwise on a thread after ``CorruptIndex`` was raised.

A search that must not block opens and reads only what is in the system's caches: each read is its own probe.
It raises ``NotCached`` at the first one that would wait.

Invariant: ``size`` is the position after the last complete batch.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from struct import Struct
from typing import Final, NamedTuple

from odradek.log.segments.offset_index import PAGE_BYTES, Entry, OffsetIndex
from odradek.log.segments.segment_format import (
    DELETED,
    LOG,
    OFFSET_INDEX,
    RELATIVE_OFFSET_MAX,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    TIME_INDEX,
    TIMES,
    TRANSACTION_INDEX,
    Buffer,
    IndexBuilder,
    OnBatch,
    Scanned,
    file_name,
    is_valid_offset_index,
    is_valid_time_index,
    scan,
    walk_batches,
)
from odradek.log.segments.transaction_index import (
    AbortedTransaction,
    check_aborted,
    decode_aborted,
    encode_aborted,
)
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import NO_TIMESTAMP
from odradek.ports.files import File, FileSystem
from odradek.records.codec import decode_batch, read_headers
from odradek.records.layout import BatchHeader

FILES_PER_SEGMENT: Final = 2
"""Files of an open sealed segment: the log file, and an index of more than a page."""

OPEN_SEGMENTS_MIN: Final = 64
OPEN_SEGMENTS_MAX: Final = 4096
"""Open sealed segments of a log directory; each needs up to 10 kB of memory, or 25 kB with a full index."""

WINDOW_BYTES: Final = 8192
"""Bytes per read while searching for a batch: twice Kafka's default index interval."""

_BATCH_START = Struct(">qi4xb")
_DELTA_AND_TIMESTAMP = Struct(">i8xq")
_LEGACY_TIMESTAMP = Struct(">q")
_SMALLEST = 26


class WouldBlock(Exception):
    """Raised when a search would wait for the disk and must not; ``page_in`` loads what it needs."""


class NotCached(WouldBlock):
    """Raised when a search for an offset needs files or pages that are not in memory."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"a search for offset {offset} would wait for the disk")
        self.offset = offset


class CorruptIndex(WouldBlock):
    """Raised when an index of a segment must be rebuilt, which reads all of its batches."""

    def __init__(self, segment: LogSegment) -> None:
        super().__init__(f"an index of {segment.path(LOG)} must be rebuilt")
        self.segment = segment


class BatchPosition(NamedTuple):
    position: int
    base_offset: int
    last_offset: int
    size_bytes: int
    max_timestamp: int
    read_end: int
    """End of the part of the log file that was read to find the batch."""


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int = -1


class OpenSegments:
    """LRU of the sealed segments that hold files open."""

    def __init__(self, limit: int = OPEN_SEGMENTS_MIN) -> None:
        self.limit = limit
        self._segments: OrderedDict[LogSegment, None] = OrderedDict()

    @classmethod
    def for_directory(cls, open_files_max: int, directories: int) -> OpenSegments:
        """Return the LRU of a log directory: all of them may use a quarter of the files of the process."""
        share = open_files_max // 4 // FILES_PER_SEGMENT // directories
        return cls(min(max(share, OPEN_SEGMENTS_MIN), OPEN_SEGMENTS_MAX))

    def __len__(self) -> int:
        return len(self._segments)

    def use(self, segment: LogSegment) -> None:
        self._segments[segment] = None
        self._segments.move_to_end(segment)
        while len(self._segments) > self.limit:
            self._segments.popitem(last=False)[0].release()

    def forget(self, segment: LogSegment) -> None:
        self._segments.pop(segment, None)

    def release_all(self) -> None:
        for segment in self._segments:
            segment.release()
        self._segments.clear()


class SegmentContext:
    """Directory and index settings shared by all segments of a log."""

    __slots__ = (
        "directory",
        "files",
        "index_bytes_max",
        "index_interval_bytes",
        "may_block",
        "opened",
        "rebuilding",
    )

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        opened: OpenSegments,
        index_interval_bytes: int,
        index_bytes_max: int,
    ) -> None:
        self.files = files
        self.directory = directory
        self.opened = opened
        self.index_interval_bytes = index_interval_bytes
        self.index_bytes_max = index_bytes_max
        self.may_block = True
        """True if a search may wait for the disk."""
        self.rebuilding: set[int] = set()
        """Base offsets of segments whose index files are being rewritten."""

    def path(self, base_offset: int, suffix: str) -> str:
        return f"{self.directory}/{file_name(base_offset, suffix)}"

    def builder(self, base_offset: int) -> IndexBuilder:
        return IndexBuilder(base_offset, self.index_interval_bytes, self.index_bytes_max)


class LogSegment:
    """A sealed segment."""

    __slots__ = (
        "_aborted",
        "_file",
        "_max_timestamp_and_offset",
        "_modified_ms",
        "_offsets",
        "_times",
        "_unwritten",
        "base_offset",
        "context",
        "size",
    )

    def __init__(self, context: SegmentContext, base_offset: int, size: int) -> None:
        self.context = context
        self.base_offset = base_offset
        self.size = size
        self._file: File | None = None
        self._offsets: OffsetIndex | None = None
        self._times: Buffer | None = None
        self._aborted: Sequence[AbortedTransaction] | None = None
        self._max_timestamp_and_offset: TimestampOffset | None = None
        self._modified_ms: int | None = None
        self._unwritten: dict[str, bytes] = {}
        """Contents of files that did not fit on a full disk, by suffix; in memory until they are written."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.context.directory}, {self.base_offset}, {self.size} bytes)"

    def path(self, suffix: str) -> str:
        return self.context.path(self.base_offset, suffix)

    # Files.

    def file(self) -> File:
        """Return the open log file. Slices of it stay valid after this segment releases it."""
        if self._file is None:
            self._file = self.context.files.open(self.path(LOG), writable=False)
        self.context.opened.use(self)
        return self._file

    def offset_index(self) -> Buffer:
        """Return all entries of the offset index. Blocks."""
        return self._open_offsets().read_all()

    def _open_offsets(self) -> OffsetIndex:
        if self._offsets is None:
            self._load_offsets()
        self.context.opened.use(self)
        assert self._offsets is not None
        return self._offsets

    def _load_offsets(self) -> None:
        """Read the offset index, or rebuild it if it is missing or invalid."""
        with suppress(FileNotFoundError):
            file = self.context.files.open(self.path(OFFSET_INDEX), writable=False)
            content = file.read_at(0, file.size())
            if is_valid_offset_index(content, self.size):
                self._offsets = OffsetIndex(content, file)
                return
        self.rebuild_indexes()

    def _load_cached_offsets(self) -> bool:
        """Read a small and valid offset index if it is in the page cache; return whether that succeeded."""
        file = self.context.files.open_cached(self.path(OFFSET_INDEX))
        if file is not None and file.size() <= PAGE_BYTES:
            content = file.read_cached(0, file.size())
            if content is not None and is_valid_offset_index(content, self.size):
                self._offsets = OffsetIndex(content)
                return True
        return False

    def time_index(self) -> Buffer:
        if self._times is None:
            self._times = self._map_times()
            if not is_valid_time_index(self._times):
                self.rebuild_indexes()
        self.context.opened.use(self)
        return self._times

    def _map_times(self) -> Buffer:
        try:
            return self.context.files.open(self.path(TIME_INDEX), writable=False).map()
        except FileNotFoundError:
            return b"?"  # invalid size: forces a rebuild

    def release(self) -> None:
        """Drop open files and indexes. A file closes once its last slice is gone too."""
        self._file = None
        self.release_indexes()
        if self._aborted and TRANSACTION_INDEX not in self._unwritten:
            self._aborted = None

    def release_indexes(self) -> None:
        """Drop the indexes that can be read again."""
        if OFFSET_INDEX not in self._unwritten:
            self._offsets = self._times = None

    def close(self) -> None:
        self.context.opened.forget(self)
        self.release()

    def remove(self) -> None:
        """Delete all files of this segment and the producer snapshot at its base offset."""
        self.context.opened.forget(self)
        self.release()
        for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT):
            with suppress(FileNotFoundError, IsADirectoryError):
                self.context.files.remove(self.path(suffix))

    def mark_deleted(self, *, keeps_snapshot: bool = False) -> None:
        """Rename all files to ``.deleted``. Slices that are being sent stay valid.

        Includes the producer snapshot at the base offset, unless another segment starts there.
        """
        self.close()
        for suffix in SEGMENT_SUFFIXES if keeps_snapshot else (*SEGMENT_SUFFIXES, SNAPSHOT):
            with suppress(FileNotFoundError):
                self.context.files.rename(self.path(suffix), self.path(suffix + DELETED))

    def remove_marked(self) -> None:
        """Delete the ``.deleted`` files. Blocks."""
        for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT):
            with suppress(FileNotFoundError, IsADirectoryError):
                self.context.files.remove(self.path(suffix + DELETED))

    def sync(self) -> None:
        """Sync log and indexes, skipping files that were removed meanwhile. Blocks."""
        for suffix in SEGMENT_SUFFIXES:
            with suppress(FileNotFoundError):
                file = self.context.files.open(self.path(suffix))
                file.sync()
                file.close()

    @property
    def has_unwritten(self) -> bool:
        """True if a full disk kept indexes of this segment from being written."""
        return bool(self._unwritten)

    def write_unwritten(self) -> None:
        """Write the files that a full disk did not take. Blocks."""
        for suffix, content in list(self._unwritten.items()):
            _replace(self.context.files, self.path(suffix), content)
        self._unwritten = {}

    # Aborted transactions.

    def aborted(self) -> Sequence[AbortedTransaction]:
        """Return the aborted transactions whose markers are in this segment, in marker order.

        Raises ``StorageError`` if the transaction index is invalid.
        """
        if self._aborted is None:
            self._aborted = self._read_aborted()
        if self._aborted:
            self.context.opened.use(self)
        return self._aborted

    def _read_aborted(self) -> Sequence[AbortedTransaction]:
        path = self.path(TRANSACTION_INDEX)
        try:
            content = self.context.files.read_whole(path)
        except FileNotFoundError:
            return ()
        entries = decode_aborted(content, path)
        check_aborted(entries, self.base_offset, path)
        return entries

    @property
    def aborted_loaded(self) -> bool:
        """True if ``aborted`` needs no file access."""
        return self._aborted is not None

    def mark_no_aborted(self) -> None:
        """Record that there is no transaction index file."""
        self._aborted = ()

    def replace_aborted(self, entries: Sequence[AbortedTransaction]) -> None:
        """Write the transaction index, or delete it if there are no entries."""
        path = self.path(TRANSACTION_INDEX)
        if entries:
            _replace(self.context.files, path, encode_aborted(entries))
        elif self.context.files.exists(path):
            self.context.files.remove(path)
        self._aborted = list(entries)

    # Scans.

    def scan(self, on_batch: OnBatch = lambda _header, _window: None) -> Scanned:
        """Check every batch and rebuild the indexes in memory."""
        builder = self.context.builder(self.base_offset)
        return scan(self._map_log(), self.base_offset, builder, on_batch)

    def batches(self, from_offset: int = 0) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Yield headers from the batch that contains ``from_offset``, with the buffers they refer to.

        Checksums are not verified.
        """
        start = self.position_before(from_offset) if from_offset > self.base_offset else 0
        return walk_batches(self._map_log()[start:])

    def headers(self) -> Iterator[BatchHeader]:
        """Yield the headers of all batches; their positions are meaningless."""
        return (header for header, _ in self.batches())

    def _map_log(self) -> memoryview:
        file = self.context.files.open(self.path(LOG), writable=False)
        view = file.map()
        file.close()
        return view[: self.size]

    def rebuild_indexes(self) -> None:
        """Rebuild the index files from the log file. Blocks, or raises ``CorruptIndex`` if it must not."""
        if not self.context.may_block:
            raise CorruptIndex(self)
        self.replace_indexes(self.scan().indexes, durable=True)

    def replace_indexes(self, indexes: IndexBuilder, *, durable: bool) -> None:
        """Write and use these indexes."""
        indexes.add_max_timestamp()
        for suffix, index in ((OFFSET_INDEX, indexes.offsets), (TIME_INDEX, indexes.times)):
            if durable:
                self.context.files.write_whole(self.path(suffix), bytes(index))
            else:
                _replace(self.context.files, self.path(suffix), index)
        self.set_indexes(indexes)

    def keep_indexes_in_memory(self, indexes: IndexBuilder, aborted: Sequence[AbortedTransaction]) -> None:
        """Use indexes that do not fit on a full disk, in memory until ``write_unwritten``.

        Partial index files are deleted: a truncated index can look like a complete one.
        """
        contents = {OFFSET_INDEX: bytes(indexes.offsets), TIME_INDEX: bytes(indexes.times)}
        if aborted:
            contents[TRANSACTION_INDEX] = encode_aborted(aborted)
        for suffix in SEGMENT_SUFFIXES:
            if suffix != LOG:
                with suppress(FileNotFoundError):
                    self.context.files.remove(self.path(suffix))
        self._unwritten = contents
        self.set_indexes(indexes)
        self._aborted = list(aborted)

    def set_indexes(self, indexes: IndexBuilder) -> None:
        """Use these in-memory indexes."""
        self._offsets, self._times = OffsetIndex(indexes.offsets), indexes.times
        self._max_timestamp_and_offset = TimestampOffset(
            indexes.max_timestamp, indexes.offset_of_max_timestamp
        )

    def walk(self, position: int) -> Iterator[BatchPosition]:
        """Yield the batches from ``position``, which must be the start of a batch."""
        end = self.size
        window, start = b"", position
        while position < end:
            at = position - start
            if at + 43 > len(window):
                start, at = position, 0
                window = self._read_window(position)
            if len(window) - at < _SMALLEST:
                raise self._corrupt(position)
            base_offset, length, magic = _BATCH_START.unpack_from(window, at)
            if length < _SMALLEST - 12 or position + 12 + length > end or not 0 <= magic <= 2:
                raise self._corrupt(position)
            delta, timestamp = 0, NO_TIMESTAMP
            if magic == 2:
                if length < 49:
                    raise self._corrupt(position)
                delta, timestamp = _DELTA_AND_TIMESTAMP.unpack_from(window, at + 23)
            elif magic == 1:
                timestamp = _LEGACY_TIMESTAMP.unpack_from(window, at + 18)[0]
            read_end = start + len(window)
            yield BatchPosition(position, base_offset, base_offset + delta, length + 12, timestamp, read_end)
            position += length + 12

    def _read_window(self, position: int) -> bytes:
        size_bytes = min(WINDOW_BYTES, self.size - position)
        if self.context.may_block:
            return self.file().read_at(position, size_bytes)
        window = self.file().read_cached(position, size_bytes) if self._is_file_ready() else None
        if window is None:
            raise WouldBlock
        return window

    def _is_file_ready(self) -> bool:
        """Return whether the log file is open, or could be opened without waiting."""
        if self._file is None:
            self._file = self.context.files.open_cached(self.path(LOG))
        return self._file is not None

    def _corrupt(self, position: int) -> BrokerError:
        return BrokerError(
            ErrorCode.CORRUPT_MESSAGE, f"cannot read a batch at position {position} of {self.path(LOG)}"
        )

    # Searches.

    def locate(self, offset: int) -> BatchPosition | None:
        """Return the first batch whose last offset is >= ``offset``."""
        try:
            for batch in self._walk_from_index(offset):
                if batch.last_offset >= offset:
                    return batch
        except CorruptIndex:
            raise
        except WouldBlock:
            raise NotCached(offset) from None
        return None

    def _walk_from_index(self, offset: int) -> Iterator[BatchPosition]:
        """Yield the batches from the closest index entry at or before ``offset``.

        An entry that does not point to its batch proves the index corrupt: it is rebuilt.
        """
        entry = self._entry_before(offset)
        if entry is None:
            return self.walk(0)
        batches = self.walk(entry[1])
        try:
            first = next(batches, None)
        except BrokerError:
            first = None
        if first is not None and first.last_offset == self.base_offset + entry[0]:
            return chain((first,), batches)
        self.rebuild_indexes()
        entry = self._entry_before(offset)
        return self.walk(entry[1] if entry else 0)

    def _entry_before(self, offset: int) -> Entry | None:
        """Return the last index entry for an offset <= ``offset``."""
        may_block = self.context.may_block
        if self._offsets is None and not may_block and not self._load_cached_offsets():
            raise NotCached(offset)
        offsets = self._open_offsets()
        relative = offset - self.base_offset
        if not offsets.load_page(relative, may_block):
            raise NotCached(offset)
        return offsets.lookup(relative)

    def _entry_from(self, position: int) -> Entry | None:
        """Return an index entry at or after ``position``, not always the first."""
        return self._open_offsets().first_from_position(position)

    def position_before(self, offset: int) -> int:
        """Return the end position of the batches that lie entirely below ``offset``."""
        batch = self.locate(offset)
        return self.size if batch is None else batch.position

    def indexed_position_before(self, offset: int) -> int:
        """Return a position at or before that, using only the index."""
        entry = self._entry_before(offset - 1)
        return entry[1] if entry else 0

    def indexed_offset_after(self, position: int) -> int | None:
        """Return the offset of an indexed batch at or after ``position``, if there is one."""
        entry = self._entry_from(position)
        return self.base_offset + entry[0] if entry else None

    def next_offset(self) -> int:
        """Return the offset after the last batch, or the base offset of an empty segment."""
        next_offset = self.base_offset
        for batch in self._walk_from_index(self.base_offset + RELATIVE_OFFSET_MAX):
            next_offset = batch.last_offset + 1
        return next_offset

    def last_header(self) -> BatchHeader:
        """Return the header of the last batch; its position is meaningless. The segment must have one."""
        for batch in self._walk_from_index(self.base_offset + RELATIVE_OFFSET_MAX):
            last = batch
        return read_headers(self.file().read_at(last.position, last.size_bytes))[0]

    def first_timestamp(self) -> int:
        """Return the max timestamp of the first batch; the segment's age counts from it."""
        first = next(self.walk(0), None)
        return NO_TIMESTAMP if first is None else first.max_timestamp

    def max_timestamp_and_offset(self) -> TimestampOffset:
        """Return the max timestamp and the last offset of its batch: the last time index entry."""
        if self._max_timestamp_and_offset is None:
            self._max_timestamp_and_offset = self._read_max_timestamp()
        return self._max_timestamp_and_offset

    @property
    def timestamps_loaded(self) -> bool:
        """True if ``largest_timestamp`` needs no file access."""
        return self._max_timestamp_and_offset is not None and (
            self._max_timestamp_and_offset.timestamp >= 0 or self._modified_ms is not None
        )

    def _read_max_timestamp(self) -> TimestampOffset:
        """Read only the last entry: a search over many segments must not open them all."""
        if self._times is None:
            try:
                file = self.context.files.open(self.path(TIME_INDEX), writable=False)
            except FileNotFoundError:
                pass
            else:
                size = file.size()
                if size and size % TIMES.entry_bytes == 0:
                    entry = file.read_at(size - TIMES.entry_bytes, TIMES.entry_bytes)
                    timestamp, relative = TIMES.entry(entry, 0)
                    was_open = self._file is not None
                    is_valid = self._is_valid_time_entry(timestamp, relative)
                    if not was_open:
                        self.close()
                    if is_valid:
                        return TimestampOffset(timestamp, self.base_offset + relative)
                    self.rebuild_indexes()
        last = TIMES.last(self.time_index())
        return TimestampOffset(last[0], self.base_offset + last[1]) if last else self._no_timestamp()

    def _is_valid_time_entry(self, timestamp: int, relative_offset: int) -> bool:
        """Check a time index entry against its batch.

        Timestamps decide what a search skips and what retention deletes, and the index has no checksum.
        """
        if timestamp < 0 or relative_offset < 0:
            return False
        offset = self.base_offset + relative_offset
        batch = self.locate(offset)
        return batch is not None and batch.max_timestamp == timestamp and batch.base_offset <= offset

    def _no_timestamp(self) -> TimestampOffset:
        return TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def modified_ms(self) -> int:
        """Return the modification time of the log file; it no longer changes."""
        if self._modified_ms is None:
            self._modified_ms = self.context.files.modified_ms(self.path(LOG))
        return self._modified_ms

    def largest_timestamp(self) -> int:
        """Return the max timestamp or, for records without timestamps, the modification time of the file."""
        timestamp = self.max_timestamp_and_offset().timestamp
        return timestamp if timestamp >= 0 else self.modified_ms()

    def find_offset_by_timestamp(self, timestamp: int, from_offset: int) -> TimestampOffset | None:
        """Return the first record at or after ``from_offset`` with a timestamp >= ``timestamp``."""
        entry = TIMES.lookup(self.time_index(), timestamp)
        if entry is not None and not self._is_valid_time_entry(*entry):
            self.rebuild_indexes()
            entry = TIMES.lookup(self.time_index(), timestamp)
        start = max(from_offset, self.base_offset + (entry[1] if entry else 0))
        for batch in self._walk_from_index(start):
            if batch.max_timestamp >= timestamp and batch.last_offset >= from_offset:
                record = self._find_record(
                    batch, lambda at, offset: at >= timestamp and offset >= from_offset
                )
                if record is not None:
                    return record
        return None

    def find_max_timestamp_record(self) -> TimestampOffset | None:
        """Return the first record that has the max timestamp."""
        timestamp, offset, _ = self.max_timestamp_and_offset()
        for batch in self._walk_from_index(offset):
            if batch.max_timestamp == timestamp:
                return self._find_record(batch, lambda at, _: at == timestamp)
        return None

    def _find_record(
        self, batch: BatchPosition, matches: Callable[[int, int], bool]
    ) -> TimestampOffset | None:
        data = self.file().read_at(batch.position, batch.size_bytes)
        header = read_headers(data)[0]
        for record in decode_batch(data, header):
            if matches(record.timestamp, record.offset):
                return TimestampOffset(record.timestamp, record.offset, header.leader_epoch)
        return None


def _replace(files: FileSystem, path: str, content: Buffer) -> None:
    file = files.open(path, create=True)
    try:
        file.truncate(0)
        file.append(content)
    finally:
        file.close()
