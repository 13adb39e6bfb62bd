"""Names and bytes of a partition's files: what each is called, what an index holds, what a scan finds. Pure.

A log is a directory ``topic-partition`` of segments; a segment's files carry its base offset in twenty
digits and one suffix each:

- ``.log``: record batches, one after the other;
- ``.index``: 8 bytes an entry, int32 last offset of a batch less the base offset, int32 position of it;
- ``.timeindex``: 12 bytes an entry, int64 largest timestamp so far, int32 last offset (less the base offset)
  of the batch that brought it;
- ``.txnindex``: aborted transactions; ``.snapshot``: state of producers up to this offset.

Entries are sparse, sorted by both numbers, big-endian. A further ``.deleted``, ``.cleaned`` or ``.swap``
marks a file that is on its way out or in. A directory on its way out is called
``topic-partition.<unique>-delete``; one that is being moved in ``…-future``, one that no topic owns
``…-stray``.
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
    """``.deleted``, ``.cleaned`` or ``.swap``; empty for a file in use."""


def file_name(base_offset: int, suffix: str) -> str:
    return f"{base_offset:020d}{suffix}"


def parse_file_name(name: str) -> FileName | None:
    """What a file of a log directory is; ``None`` for what is not a segment's."""
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
    """The name of a log's directory; ``unique`` is needed for all but the current one.

    The topic is cut where the whole would be longer than a file system takes, as Kafka does: of a directory
    that is to go, only the ending matters.
    """
    if kind is DirectoryKind.CURRENT:
        return str(topic_partition)
    ending = f"-{topic_partition.partition}.{unique}{kind.value}"
    room = DIRECTORY_NAME_LENGTH_MAX - len(ending)
    return (topic_partition.topic if kind is DirectoryKind.FUTURE else topic_partition.topic[:room]) + ending


def parse_directory_name(name: str) -> DirectoryName | None:
    """Whose log a directory holds; ``None`` if it is no log's."""
    match = _DIRECTORY_NAME.fullmatch(name)
    if match is None:
        return None
    topic_partition = TopicPartition(match["topic"], int(match["partition"]))
    return DirectoryName(topic_partition, DirectoryKind(match["kind"] or ""))


class IndexFormat:
    """Entries of one kind of index: a key they are sorted by, and a value."""

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
        whole = memoryview(index)[: self.count(index) * self.entry_bytes]
        return [(key, value) for key, value in self.pair.iter_unpack(whole)]

    def floor(self, index: Buffer, key: int) -> int:
        """Number of the last entry whose key is not above ``key``; -1 if there is none."""
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
        """The last entry whose key is not above ``key``."""
        number = self.floor(index, key)
        return self.entry(index, number) if number >= 0 else None

    def entries_max(self, size_bytes_max: int) -> int:
        """How many whole entries fit into an index of so many bytes."""
        return size_bytes_max // self.entry_bytes


OFFSETS: Final = IndexFormat(">ii", ">i")
"""Entries of ``.index``: last offset of a batch, relative; position of the batch."""
TIMES: Final = IndexFormat(">qi", ">q")
"""Entries of ``.timeindex``: timestamp; last offset of its batch, relative."""


def is_sound_offset_index(index: Buffer, log_bytes: int) -> bool:
    """Whether an offset index can be true of a log file of this size, judged by its size and last entry."""
    if len(index) % OFFSETS.entry_bytes:
        return False
    last = OFFSETS.last(index)
    return last is None or (last[0] >= 0 and 0 < last[1] < log_bytes)


def is_sound_time_index(index: Buffer) -> bool:
    """Whether a time index can be true, judged by its size, first and last entry."""
    if len(index) % TIMES.entry_bytes:
        return False
    last = TIMES.last(index)
    return last is None or (last[1] >= 0 and last[0] >= TIMES.entry(index, 0)[0] >= 0)


def time_entries_before(index: Buffer, relative_offset: int) -> int:
    """How many entries of a time index are about offsets below ``relative_offset``."""
    low, high = 0, TIMES.count(index)
    while low < high:
        middle = (low + high) // 2
        if TIMES.entry(index, middle)[1] < relative_offset:
            low = middle + 1
        else:
            high = middle
    return low


class IndexBuilder:
    """Both indexes of a segment that grows, and its largest timestamp.

    A batch gets an entry when more than ``interval_bytes`` were written since the batch of the entry before
    it. Index sizes are bounded by ``size_bytes_max``; the time index keeps one entry free for the one that is
    written when the segment is sealed.
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
        """Go on from indexes that are there."""
        self.offsets += offsets
        self.times += times
        last = OFFSETS.last(self.offsets)
        self.bytes_since_entry = log_bytes - (last[1] if last else 0)
        self.check_full()

    def add(self, last_offset: int, max_timestamp: int, position: int, size_bytes: int) -> None:
        """Count a batch that was appended at ``position``."""
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
            self.add_largest_timestamp()
        self.check_full()

    def add_largest_timestamp(self) -> None:
        """Give the time index its entry for the largest timestamp, if it does not have it."""
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
    """What a scan over a log file found: the whole, valid batches from its start on."""

    valid_end: int
    """Position after the last valid batch."""
    next_offset: int
    """Offset after the last valid batch; the base offset if there is none."""
    indexes: IndexBuilder
    first_timestamp: int
    """Largest timestamp of the first batch; -1 if there is none."""
    problem: str | None
    """What ended the scan before the end of the file."""


_WINDOW_BYTES = 1 << 20


OnBatch = Callable[[BatchHeader, memoryview], None]
"""Takes a batch's header, and the bytes in which its position is."""


def scan(log: memoryview, base_offset: int, indexes: IndexBuilder, on_batch: OnBatch) -> Scanned:
    """Walk the batches of a log file up to the first that is incomplete, corrupt or out of order.

    ``indexes`` is fed every valid batch, and so is ``on_batch``.
    """
    position, next_offset, first_timestamp = 0, base_offset, NO_TIMESTAMP
    problem: str | None = None
    while position < len(log) and problem is None:
        window, headers, problem = _read_window(log, position)
        for header in headers:
            broken = _problem_of(window, header, base_offset, next_offset)
            if broken is not None:
                problem = broken
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
    """Headers of a log file's batches, each with the bytes in which its position is, up to the first that
    cannot be read; checksums are not looked at."""
    position, problem = 0, None
    while position < len(log) and problem is None:
        window, headers, problem = _read_window(log, position)
        for header in headers:
            yield header, window
        position += headers[-1].end_position if headers else 0


def walk_headers(log: memoryview) -> Iterator[BatchHeader]:
    """The headers alone."""
    return (header for header, _ in walk_batches(log))


def _read_window(log: memoryview, position: int) -> tuple[memoryview, list[BatchHeader], str | None]:
    """The bytes of the next few batches, their headers, and what is known to be wrong right after them."""
    window = log[position : position + _WINDOW_BYTES]
    try:
        headers = read_headers(window)
        if not headers and len(window) >= LOG_OVERHEAD:
            window = log[position : position + _size_at(window, 0)]
            headers = read_headers(window)
    except BrokerError as refusal:
        return window, _read_singly(window), refusal.message
    return window, headers, None if headers else "the last batch is incomplete"


def _read_singly(window: memoryview) -> list[BatchHeader]:
    """Headers of the batches before one that cannot be read."""
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


def _problem_of(window: memoryview, header: BatchHeader, base_offset: int, next_offset: int) -> str | None:
    # No checksum covers the base offset; where it goes back or too far, something else has changed it.
    if header.last_offset - base_offset > RELATIVE_OFFSET_MAX:
        return f"offset {header.last_offset} is too far from the segment's base offset"
    if header.last_offset_delta < 0 or header.base_offset < next_offset:
        return f"offset {header.base_offset} where {next_offset} or more was due"
    if not has_valid_crc(window, header):
        return f"checksum of the batch at offset {header.base_offset} does not match"
    return None
