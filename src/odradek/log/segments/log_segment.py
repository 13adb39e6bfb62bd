"""One segment of a log, at rest: a file of batches, and the two sparse indexes into it.

Its files are opened and its indexes mapped when first needed, and let go again by ``OpenSegments`` when too
many are open. An index that is missing, or cannot be true, is rebuilt from the batches when it is met: at
once by whoever may wait, and else on a thread, after ``CorruptIndex`` has told that it must be.

Invariant: ``size`` is the position after the last whole batch.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from struct import Struct
from typing import Final, NamedTuple

from odradek.log.segments.segment_format import (
    DELETED,
    LOG,
    OFFSET_INDEX,
    OFFSETS,
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
    is_sound_offset_index,
    is_sound_time_index,
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

OPEN_SEGMENTS_MAX: Final = 256
"""Segments at rest that may hold files open; each holds up to four."""

WINDOW_BYTES: Final = 8192
"""Read at once in search of a batch: two index intervals of Kafka's default."""

_BATCH_START = Struct(">qi4xb")
_DELTA_AND_TIMESTAMP = Struct(">i8xq")
_LEGACY_TIMESTAMP = Struct(">q")
_SMALLEST = 26


class WouldBlock(Exception):
    """A search would wait for a disk, and must not: it is to be rehearsed first."""


class CorruptIndex(WouldBlock):
    """An index of this segment is to be rebuilt, which takes a look at all of its batches."""

    def __init__(self, segment: LogSegment) -> None:
        super().__init__(f"an index of {segment.path(LOG)} is to be rebuilt")
        self.segment = segment


class BatchPosition(NamedTuple):
    position: int
    base_offset: int
    last_offset: int
    size_bytes: int
    max_timestamp: int


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int = -1


class OpenSegments:
    """Which segments at rest hold files open, the longest unused first; bounded."""

    def __init__(self, limit: int = OPEN_SEGMENTS_MAX) -> None:
        self._limit = limit
        self._segments: OrderedDict[LogSegment, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._segments)

    def use(self, segment: LogSegment) -> None:
        self._segments[segment] = None
        self._segments.move_to_end(segment)
        while len(self._segments) > self._limit:
            self._segments.popitem(last=False)[0].let_go()

    def forget(self, segment: LogSegment) -> None:
        self._segments.pop(segment, None)

    def let_all_go(self) -> None:
        for segment in self._segments:
            segment.let_go()
        self._segments.clear()


class SegmentContext:
    """Where the segments of one log live, and by what rules their indexes are made. Shared by all of them."""

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
        """True while a search may wait for a whole segment to be read."""
        self.rebuilding: set[int] = set()
        """Base offsets of the segments whose index files are being replaced."""

    def path(self, base_offset: int, suffix: str) -> str:
        return f"{self.directory}/{file_name(base_offset, suffix)}"

    def builder(self, base_offset: int) -> IndexBuilder:
        return IndexBuilder(base_offset, self.index_interval_bytes, self.index_bytes_max)


class LogSegment:
    """A segment at rest."""

    __slots__ = (
        "_aborted",
        "_file",
        "_largest",
        "_modified_ms",
        "_offsets",
        "_offsets_file",
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
        self._offsets: Buffer | None = None
        self._offsets_file: File | None = None  # to ask whether what is mapped is in memory
        self._times: Buffer | None = None
        self._aborted: Sequence[AbortedTransaction] | None = None
        self._largest: TimestampOffset | None = None
        self._modified_ms: int | None = None
        self._unwritten: dict[str, bytes] = {}
        """Contents of files for which there was no room, by suffix. They stay in memory until there is."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.context.directory}, {self.base_offset}, {self.size} bytes)"

    def path(self, suffix: str) -> str:
        return self.context.path(self.base_offset, suffix)

    # Files.

    def file(self) -> File:
        """The log file, open. A slice made of it stays good when this segment lets go of it."""
        if self._file is None:
            self._file = self.context.files.open(self.path(LOG), writable=False)
        self.context.opened.use(self)
        return self._file

    def offset_index(self) -> Buffer:
        if self._offsets is None:
            self._offsets, self._offsets_file = self._map(OFFSET_INDEX)
            if not is_sound_offset_index(self._offsets, self.size):
                self.rebuild_indexes()
        self.context.opened.use(self)
        return self._offsets

    def time_index(self) -> Buffer:
        if self._times is None:
            self._times, _ = self._map(TIME_INDEX)
            if not is_sound_time_index(self._times):
                self.rebuild_indexes()
        self.context.opened.use(self)
        return self._times

    def _map(self, suffix: str) -> tuple[memoryview, File | None]:
        try:
            file = self.context.files.open(self.path(suffix), writable=False)
        except FileNotFoundError:
            return memoryview(b"?"), None  # of no sound size, so that it is rebuilt
        return file.map(), file

    def let_go(self) -> None:
        """Hold nothing open. Files close once the last slice of them is gone too."""
        self._file = None
        if OFFSET_INDEX not in self._unwritten:
            self._offsets = self._offsets_file = None
            self._times = None
        if self._aborted and TRANSACTION_INDEX not in self._unwritten:
            self._aborted = None

    def close(self) -> None:
        self.context.opened.forget(self)
        self.let_go()

    def remove(self) -> None:
        """Delete all files of this segment, and the state of producers where it begins."""
        self.context.opened.forget(self)
        self.let_go()
        for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT):
            with suppress(FileNotFoundError, IsADirectoryError):
                self.context.files.remove(self.path(suffix))

    def mark_deleted(self, *, keeps_snapshot: bool = False) -> None:
        """Give all files the ending of those on their way out. What is being sent from them still is.

        The state of producers where the segment begins goes along, unless another segment begins there.
        """
        self.close()
        for suffix in SEGMENT_SUFFIXES if keeps_snapshot else (*SEGMENT_SUFFIXES, SNAPSHOT):
            with suppress(FileNotFoundError):
                self.context.files.rename(self.path(suffix), self.path(suffix + DELETED))

    def remove_marked(self) -> None:
        """Delete the files that were marked. Waits."""
        for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT):
            with suppress(FileNotFoundError, IsADirectoryError):
                self.context.files.remove(self.path(suffix + DELETED))

    def sync(self) -> None:
        """Bring log and indexes to the disk, unless they were removed meanwhile. Waits."""
        for suffix in SEGMENT_SUFFIXES:
            with suppress(FileNotFoundError):
                file = self.context.files.open(self.path(suffix))
                file.sync()
                file.close()

    @property
    def has_unwritten(self) -> bool:
        """True if a start found no room for the indexes of this segment."""
        return bool(self._unwritten)

    def write_unwritten(self) -> None:
        """Write the files for which there was no room before. Waits."""
        for suffix, content in list(self._unwritten.items()):
            _replace(self.context.files, self.path(suffix), content)
        self._unwritten = {}

    # Aborted transactions.

    def aborted(self) -> Sequence[AbortedTransaction]:
        """Those whose markers are in this segment, in order. ``StorageError`` if the index cannot be true."""
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
    def knows_aborted(self) -> bool:
        """True if ``aborted`` is known without a look into a file."""
        return self._aborted is not None

    def has_no_aborted(self) -> None:
        """There is no index of aborted transactions, so nobody needs to look for it."""
        self._aborted = ()

    def use_aborted(self, entries: Sequence[AbortedTransaction]) -> None:
        """Write the index of aborted transactions, or have none, and go by it."""
        path = self.path(TRANSACTION_INDEX)
        if entries:
            _replace(self.context.files, path, encode_aborted(entries))
        elif self.context.files.exists(path):
            self.context.files.remove(path)
        self._aborted = list(entries)

    # Scans.

    def scan(self, on_batch: OnBatch = lambda _header, _window: None) -> Scanned:
        """Check every batch and build the indexes anew, in memory."""
        builder = self.context.builder(self.base_offset)
        return scan(self._map_log(), self.base_offset, builder, on_batch)

    def batches(self, from_offset: int = 0) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Headers of the batches from the one that holds ``from_offset`` on, each with the bytes in which its
        position is. Checksums are not looked at."""
        start = self.position_before(from_offset) if from_offset > self.base_offset else 0
        return walk_batches(self._map_log()[start:])

    def headers(self) -> Iterator[BatchHeader]:
        """Headers of all batches; positions are of no use."""
        return (header for header, _ in self.batches())

    def _map_log(self) -> memoryview:
        file = self.context.files.open(self.path(LOG), writable=False)
        view = file.map()
        file.close()
        return view[: self.size]

    def rebuild_indexes(self) -> None:
        """Write the indexes that the log file says there should be. Waits; ``CorruptIndex`` if none may."""
        if not self.context.may_block:
            raise CorruptIndex(self)
        self.use_indexes(self.scan().indexes, durable=True)

    def use_indexes(self, indexes: IndexBuilder, *, durable: bool) -> None:
        """Write these indexes and go by them."""
        indexes.add_largest_timestamp()
        for suffix, index in ((OFFSET_INDEX, indexes.offsets), (TIME_INDEX, indexes.times)):
            if durable:
                self.context.files.write_whole(self.path(suffix), bytes(index))
            else:
                _replace(self.context.files, self.path(suffix), index)
        self.adopt_indexes(indexes)

    def use_without_room(self, indexes: IndexBuilder, aborted: Sequence[AbortedTransaction]) -> None:
        """Go by indexes for which the disk has no room: in memory, until ``write_unwritten``.

        No part of them stays on file: a part of an index can pass for the whole.
        """
        contents = {OFFSET_INDEX: bytes(indexes.offsets), TIME_INDEX: bytes(indexes.times)}
        if aborted:
            contents[TRANSACTION_INDEX] = encode_aborted(aborted)
        for suffix in SEGMENT_SUFFIXES:
            if suffix != LOG:
                with suppress(FileNotFoundError):
                    self.context.files.remove(self.path(suffix))
        self._unwritten = contents
        self.adopt_indexes(indexes)
        self._aborted = list(aborted)

    def adopt_indexes(self, indexes: IndexBuilder) -> None:
        """Go by these indexes, which are in memory."""
        self._offsets, self._offsets_file, self._times = indexes.offsets, None, indexes.times
        self._largest = TimestampOffset(indexes.max_timestamp, indexes.offset_of_max_timestamp)

    def walk(self, position: int) -> Iterator[BatchPosition]:
        """Places of the batches from ``position`` on, which must be a batch's."""
        file, end = self.file(), self.size
        window, start = b"", position
        while position < end:
            at = position - start
            if at + 43 > len(window):
                start, at = position, 0
                window = file.read_at(position, min(WINDOW_BYTES, end - position))
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
            yield BatchPosition(position, base_offset, base_offset + delta, length + 12, timestamp)
            position += length + 12

    def _corrupt(self, position: int) -> BrokerError:
        return BrokerError(
            ErrorCode.CORRUPT_MESSAGE, f"no batch can be read at position {position} of {self.path(LOG)}"
        )

    # Searches.

    def locate(self, offset: int) -> BatchPosition | None:
        """The first batch whose last offset is not below ``offset``."""
        for place in self._walk_near(offset):
            if place.last_offset >= offset:
                return place
        return None

    def _walk_near(self, offset: int) -> Iterator[BatchPosition]:
        """Places from the batch on that the index knows nearest before ``offset``.

        An entry that does not point to the batch it means gives the whole index away: it is rebuilt.
        """
        entry = OFFSETS.lookup(self.offset_index(), offset - self.base_offset)
        if entry is None:
            return self.walk(0)
        places = self.walk(entry[1])
        try:
            first = next(places, None)
        except BrokerError:
            first = None
        if first is not None and first.last_offset == self.base_offset + entry[0]:
            return chain((first,), places)
        self.rebuild_indexes()
        entry = OFFSETS.lookup(self.offset_index(), offset - self.base_offset)
        return self.walk(entry[1] if entry else 0)

    def position_before(self, offset: int) -> int:
        """Where the batches that lie wholly below ``offset`` end."""
        place = self.locate(offset)
        return self.size if place is None else place.position

    def position_known_before(self, offset: int) -> int:
        """A place at or before that, from the index alone."""
        entry = OFFSETS.lookup(self.offset_index(), offset - 1 - self.base_offset)
        return entry[1] if entry else 0

    def offset_known_behind(self, position: int) -> int | None:
        """An offset of a batch at or behind ``position``, if the index knows one."""
        index = self.offset_index()
        number = bisect_left(range(OFFSETS.count(index)), position, key=lambda n: OFFSETS.entry(index, n)[1])
        return self.base_offset + OFFSETS.entry(index, number)[0] if number < OFFSETS.count(index) else None

    def next_offset(self) -> int:
        """The offset after the last batch; the base offset if there is none."""
        next_offset = self.base_offset
        for place in self._walk_near(self.base_offset + RELATIVE_OFFSET_MAX):
            next_offset = place.last_offset + 1
        return next_offset

    def first_timestamp(self) -> int:
        """Largest timestamp of the first batch: what the age of the segment is counted from."""
        first = next(self.walk(0), None)
        return NO_TIMESTAMP if first is None else first.max_timestamp

    def largest(self) -> TimestampOffset:
        """The largest timestamp and the last offset of its batch: the last entry of the time index."""
        if self._largest is None:
            self._largest = self._read_largest()
        return self._largest

    @property
    def is_timed(self) -> bool:
        """True if ``newest_ms`` is known without a look at a file."""
        return self._largest is not None and (self._largest.timestamp >= 0 or self._modified_ms is not None)

    def _read_largest(self) -> TimestampOffset:
        """Read the last entry alone: a search over many segments must not open them all."""
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
                    is_true = self._is_true_time(timestamp, relative)
                    if not was_open:
                        self.close()
                    if is_true:
                        return TimestampOffset(timestamp, self.base_offset + relative)
                    self.rebuild_indexes()
        last = TIMES.last(self.time_index())
        return TimestampOffset(last[0], self.base_offset + last[1]) if last else self._no_time()

    def _is_true_time(self, timestamp: int, relative_offset: int) -> bool:
        """Whether an entry of the time index is what the batch that it means says.

        Times decide what a search skips and what retention deletes, and the index has no checksum.
        """
        if timestamp < 0 or relative_offset < 0:
            return False
        offset = self.base_offset + relative_offset
        place = self.locate(offset)
        return place is not None and place.max_timestamp == timestamp and place.base_offset <= offset

    def _no_time(self) -> TimestampOffset:
        return TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def modified_ms(self) -> int:
        """When the log file was last written. A segment at rest is written no more."""
        if self._modified_ms is None:
            self._modified_ms = self.context.files.modified_ms(self.path(LOG))
        return self._modified_ms

    def newest_ms(self) -> int:
        """The largest timestamp or, where records have none, when the file was last written."""
        largest = self.largest().timestamp
        return largest if largest >= 0 else self.modified_ms()

    def find_time(self, timestamp: int, from_offset: int) -> TimestampOffset | None:
        """The first record at ``from_offset`` or later that is not older than ``timestamp``."""
        entry = TIMES.lookup(self.time_index(), timestamp)
        if entry is not None and not self._is_true_time(*entry):
            self.rebuild_indexes()
            entry = TIMES.lookup(self.time_index(), timestamp)
        start = max(from_offset, self.base_offset + (entry[1] if entry else 0))
        for place in self._walk_near(start):
            if place.max_timestamp >= timestamp and place.last_offset >= from_offset:
                found = self._record_in(place, lambda at, offset: at >= timestamp and offset >= from_offset)
                if found is not None:
                    return found
        return None

    def record_of_largest(self) -> TimestampOffset | None:
        """The first record that has the largest timestamp."""
        timestamp, offset, _ = self.largest()
        for place in self._walk_near(offset):
            if place.max_timestamp == timestamp:
                return self._record_in(place, lambda at, _: at == timestamp)
        return None

    def _record_in(self, place: BatchPosition, wanted: Callable[[int, int], bool]) -> TimestampOffset | None:
        data = self.file().read_at(place.position, place.size_bytes)
        header = read_headers(data)[0]
        for record in decode_batch(data, header):
            if wanted(record.timestamp, record.offset):
                return TimestampOffset(record.timestamp, record.offset, header.leader_epoch)
        return None


def _replace(files: FileSystem, path: str, content: Buffer) -> None:
    file = files.open(path, create=True)
    try:
        file.truncate(0)
        file.append(content)
    finally:
        file.close()
