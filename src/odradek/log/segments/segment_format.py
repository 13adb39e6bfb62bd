"""File names, index entries and batch scan of a partition's log directory. Pure.

A log is a directory ``topic-partition`` of segments; a segment's files carry its base offset in twenty
digits and one suffix each:

- ``.log``: record batches;
- ``.index``: 8 bytes per entry, int32 last offset of a batch relative to the base offset, int32 position;
- ``.timeindex``: 12 bytes per entry, int64 max timestamp so far, int32 relative last offset of its batch;
- ``.txnindex``: aborted transactions; ``.snapshot``: producer state up to this offset.

Index entries are sparse, sorted by both fields, big-endian. An additional ``.deleted``, ``.cleaned`` or
``.swap`` marks a file to be deleted or swapped in. A directory to be deleted is called
``topic-partition.<unique>-delete``, a future replica ``…-future``, a log of no known topic ``…-stray``.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from odradek.model.errors import BrokerError
from odradek.model.ids import NO_TIMESTAMP, TopicPartition
from odradek.records.codec import has_valid_crc, read_headers
from odradek.records.layout import LOG_OVERHEAD, BatchHeader

Buffer = bytes | bytearray | memoryview

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TRANSACTION_INDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"
SEGMENT_SUFFIXES: Final = (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)
INDEX_SUFFIXES: Final = (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)

DELETED: Final = ".deleted"
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"

RELATIVE_OFFSET_MAX: Final = 2**31 - 1
POSITION_MAX: Final = 2**31 - 1
DIRECTORY_NAME_LENGTH_MAX: Final = 255

_FILE_NAME = re.compile(r"(\d{20})(\.[a-z]+)(\.[a-z]+)?")
_DIRECTORY_NAME = re.compile(
    r"(?P<topic>\S+)-(?P<partition>\d{1,10})(?:\.\S+(?P<kind>-delete|-future|-stray))?"
)


class FileName(NamedTuple):
    base_offset: int
    suffix: str
    mark: str
    """``.deleted``, ``.cleaned`` or ``.swap``; empty for a live file."""


def file_name(base_offset: int, suffix: str) -> str:
    return f"{base_offset:020d}{suffix}"


def parse_file_name(name: str) -> FileName | None:
    """Parse the name of a segment file; ``None`` for other files."""
    match = _FILE_NAME.fullmatch(name)
    return FileName(int(match[1]), match[2], match[3] or "") if match else None


class DirectoryKind(enum.Enum):
    CURRENT = ""
    DELETE = "-delete"
    FUTURE = "-future"
    STRAY = "-stray"


class DirectoryName(NamedTuple):
    topic_partition: TopicPartition
    kind: DirectoryKind


def directory_name(
    topic_partition: TopicPartition, kind: DirectoryKind = DirectoryKind.CURRENT, unique: str = ""
) -> str:
    """Return the name of a log's directory; ``unique`` is required for all but the current one.

    Like Kafka, truncates the topic where the name would be too long for a file system: only the suffix of a
    directory to be deleted matters.
    """
    if kind is DirectoryKind.CURRENT:
        return str(topic_partition)
    ending = f"-{topic_partition.partition}.{unique}{kind.value}"
    room = DIRECTORY_NAME_LENGTH_MAX - len(ending)
    return (topic_partition.topic if kind is DirectoryKind.FUTURE else topic_partition.topic[:room]) + ending


def parse_directory_name(name: str) -> DirectoryName | None:
    """Parse the name of a log's directory; ``None`` for other directories."""
    match = _DIRECTORY_NAME.fullmatch(name)
    if match is None:
        return None
    topic_partition = TopicPartition(match["topic"], int(match["partition"]))
    return DirectoryName(topic_partition, DirectoryKind(match["kind"] or ""))


class IndexFormat:
    """Entry layout of an index: sort key and value."""

    __slots__ = ("entry_bytes", "key", "pair")

    def __init__(self, pair: str, key: str) -> None:
        self.pair = Struct(pair)
        self.key = Struct(key)
        self.entry_bytes = self.pair.size

    def count(self, index: Buffer) -> int:
        return len(index) // self.entry_bytes

    def entry(self, index: Buffer, number: int) -> tuple[int, int]:
        key, value = self.pair.unpack_from(index, number * self.entry_bytes)
        return key, value

    def last(self, index: Buffer) -> tuple[int, int] | None:
        count = self.count(index)
        return self.entry(index, count - 1) if count else None

    def entries(self, index: Buffer) -> list[tuple[int, int]]:
        complete = memoryview(index)[: self.count(index) * self.entry_bytes]
        return [(key, value) for key, value in self.pair.iter_unpack(complete)]

    def floor(self, index: Buffer, key: int) -> int:
        """Return the number of the last entry with a key <= ``key``, or -1."""
        key_at, step = self.key.unpack_from, self.entry_bytes
        low, high = 0, self.count(index)
        while low < high:
            middle = (low + high) // 2
            if key_at(index, middle * step)[0] <= key:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def lookup(self, index: Buffer, key: int) -> tuple[int, int] | None:
        """Return the last entry with a key <= ``key``."""
        number = self.floor(index, key)
        return self.entry(index, number) if number >= 0 else None

    def entries_max(self, size_bytes_max: int) -> int:
        """Return the number of entries that fit into ``size_bytes_max``."""
        return size_bytes_max // self.entry_bytes


OFFSETS: Final = IndexFormat(">ii", ">i")
"""Entries of ``.index``: last offset of a batch, relative; position of the batch."""
TIMES: Final = IndexFormat(">qi", ">q")
"""Entries of ``.timeindex``: timestamp; last offset of its batch, relative."""


def is_valid_offset_index(index: Buffer, log_bytes: int) -> bool:
    """Sanity check of an offset index by its size and last entry, given the size of the log file."""
    if len(index) % OFFSETS.entry_bytes:
        return False
    last = OFFSETS.last(index)
    return last is None or (last[0] >= 0 and 0 < last[1] < log_bytes)


def is_valid_time_index(index: Buffer) -> bool:
    """Sanity check of a time index by its size, first and last entry."""
    if len(index) % TIMES.entry_bytes:
        return False
    last = TIMES.last(index)
    return last is None or (last[1] >= 0 and last[0] >= TIMES.entry(index, 0)[0] >= 0)


def time_entries_before(index: Buffer, relative_offset: int) -> int:
    """Return the number of time index entries for offsets < ``relative_offset``."""
    low, high = 0, TIMES.count(index)
    while low < high:
        middle = (low + high) // 2
        if TIMES.entry(index, middle)[1] < relative_offset:
            low = middle + 1
        else:
            high = middle
    return low


class IndexBuilder:
    """Offset and time index of a growing segment, and its max timestamp.

    A batch gets an entry when more than ``interval_bytes`` were written since the last indexed batch. Index
    sizes are bounded by ``size_bytes_max``; the time index reserves one entry for the seal.
    """

    __slots__ = (
        "_base_offset",
        "_interval_bytes",
        "_offset_entries_max",
        "_time_entries_max",
        "bytes_since_entry",
        "is_full",
        "max_timestamp",
        "offset_of_max_timestamp",
        "offsets",
        "times",
    )

    def __init__(self, base_offset: int, interval_bytes: int, size_bytes_max: int) -> None:
        self._base_offset = base_offset
        self._interval_bytes = interval_bytes
        self._offset_entries_max = OFFSETS.entries_max(size_bytes_max)
        self._time_entries_max = TIMES.entries_max(size_bytes_max) - 1
        self.offsets = bytearray()
        self.times = bytearray()
        self.bytes_since_entry = 0
        self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = base_offset
        self.is_full = False
        self.check_full()

    def load(self, offsets: Buffer, times: Buffer, log_bytes: int) -> None:
        """Continue existing indexes."""
        self.offsets += offsets
        self.times += times
        last = OFFSETS.last(self.offsets)
        self.bytes_since_entry = log_bytes - (last[1] if last else 0)
        self.check_full()

    def add(self, last_offset: int, max_timestamp: int, position: int, size_bytes: int) -> None:
        """Add a batch that was appended at ``position``."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.offset_of_max_timestamp = last_offset
        if self.bytes_since_entry > self._interval_bytes:
            self._add_entries(last_offset, position)
        self.bytes_since_entry += size_bytes

    def _add_entries(self, last_offset: int, position: int) -> None:
        if OFFSETS.count(self.offsets) < self._offset_entries_max:
            self.offsets += OFFSETS.pair.pack(last_offset - self._base_offset, position)
            self.bytes_since_entry = 0
        if TIMES.count(self.times) < self._time_entries_max:
            self.add_max_timestamp()
        self.check_full()

    def add_max_timestamp(self) -> None:
        """Append the time index entry of the max timestamp, unless it is the last one already."""
        last = TIMES.last(self.times)
        if self.max_timestamp > (last[0] if last else NO_TIMESTAMP):
            relative = self.offset_of_max_timestamp - self._base_offset
            self.times += TIMES.pair.pack(self.max_timestamp, relative)

    def check_full(self) -> None:
        self.is_full = (
            OFFSETS.count(self.offsets) >= self._offset_entries_max
            or TIMES.count(self.times) >= self._time_entries_max
        )


class Scanned(NamedTuple):
    """Result of a log file scan: its prefix of complete, valid batches."""

    valid_end: int
    """Position after the last valid batch."""
    next_offset: int
    """Offset after the last valid batch; the base offset if there is none."""
    indexes: IndexBuilder
    first_timestamp: int
    """Max timestamp of the first batch; -1 if there is none."""
    problem: str | None
    """Reason why the scan stopped before the end of the file."""


_WINDOW_BYTES = 1 << 20


OnBatch = Callable[[BatchHeader, memoryview], None]
"""Called with a batch header and the buffer its position refers to."""


def scan(log: memoryview, base_offset: int, indexes: IndexBuilder, on_batch: OnBatch) -> Scanned:
    """Scan a log file up to the first batch that is incomplete, corrupt or out of order.

    Every valid batch is added to ``indexes`` and passed to ``on_batch``.
    """
    position, next_offset, first_timestamp = 0, base_offset, NO_TIMESTAMP
    problem: str | None = None
    while position < len(log) and problem is None:
        window, headers, problem = _read_window(log, position)
        for header in headers:
            error = _check_batch(window, header, base_offset, next_offset)
            if error is not None:
                problem = error
                break
            last_offset = header.last_offset
            if position == 0:
                first_timestamp = header.max_timestamp
            indexes.add(last_offset, header.max_timestamp, position, header.size_bytes)
            on_batch(header, window)
            position += header.size_bytes
            next_offset = last_offset + 1
    return Scanned(position, next_offset, indexes, first_timestamp, problem)


def walk_batches(log: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield batch headers, each with the buffer its position refers to, up to the first unreadable batch.

    Checksums are not verified.
    """
    position, problem = 0, None
    while position < len(log) and problem is None:
        window, headers, problem = _read_window(log, position)
        for header in headers:
            yield header, window
        position += headers[-1].end_position if headers else 0


def walk_headers(log: memoryview) -> Iterator[BatchHeader]:
    """Yield batch headers only."""
    return (header for header, _ in walk_batches(log))


def _read_window(log: memoryview, position: int) -> tuple[memoryview, list[BatchHeader], str | None]:
    """Return a buffer of the next batches, their headers, and the problem that follows them, if any."""
    window = log[position : position + _WINDOW_BYTES]
    try:
        headers = read_headers(window)
        if not headers and len(window) >= LOG_OVERHEAD:
            window = log[position : position + _size_at(window, 0)]
            headers = read_headers(window)
    except BrokerError as error:
        return window, _read_singly(window), error.message
    return window, headers, None if headers else "the last batch is incomplete"


def _read_singly(window: memoryview) -> list[BatchHeader]:
    """Return the headers of the batches before an unreadable one."""
    headers: list[BatchHeader] = []
    position = 0
    while True:
        end = position + max(_size_at(window, position), LOG_OVERHEAD)
        try:
            headers += read_headers(window[:end], position)
        except BrokerError:
            return headers
        position = end


def _size_at(window: memoryview, position: int) -> int:
    return int.from_bytes(window[position + 8 : position + LOG_OVERHEAD], "big", signed=True) + LOG_OVERHEAD


def _check_batch(window: memoryview, header: BatchHeader, base_offset: int, next_offset: int) -> str | None:
    # The checksum does not cover the base offset: an offset that goes back or too far is corruption.
    if header.last_offset - base_offset > RELATIVE_OFFSET_MAX:
        return f"offset {header.last_offset} exceeds the relative offset range of base offset {base_offset}"
    if header.last_offset_delta < 0 or header.base_offset < next_offset:
        return f"base offset must be >= {next_offset}, got {header.base_offset}"
    if not has_valid_crc(window, header):
        return f"checksum mismatch of the batch at offset {header.base_offset}"
    return None
