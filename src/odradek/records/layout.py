"""The bytes of record batches and the values read from them.

Invariant: nothing here reads or writes a buffer; both codecs and everything above them share these words.

A magic 2 batch, big-endian::

    0   base offset         int64     where the first record goes
    8   length              int32     of all that follows this field
    12  leader epoch        int32
    16  magic               int8      2
    17  crc                 uint32    CRC-32C of everything from byte 21 on
    21  attributes          int16     0-2 codec, 3 append time, 4 transactional, 5 control, 6 delete horizon
    23  last offset delta   int32
    27  base timestamp      int64     the delete horizon if bit 6 is set
    35  max timestamp       int64
    43  producer id         int64
    51  producer epoch      int16
    53  base sequence       int32
    57  count               int32
    61  records, compressed as a whole if bits 0-2 say so

A record: varint length, int8 attributes, varlong timestamp delta, varint offset delta, varint-sized key,
varint-sized value, varint header count, and for each header a varint-sized key and a varint-sized value.
A size of -1 is null. Base offset and leader epoch lie before the CRC's range, so a leader assigns them
without touching the rest.

Magic 0 and 1, a message: int64 offset, int32 size, uint32 CRC-32 (of all after it), int8 magic,
int8 attributes, int64 timestamp (magic 1 only), int32-sized key, int32-sized value.
"""

from __future__ import annotations

import enum
from struct import Struct
from typing import Final, NamedTuple

from odradek.model.ids import NO_PRODUCER_ID, NO_SEQUENCE
from odradek.model.protocol_enums import Compression, TimestampType
from odradek.ports.files import Buffer

LOG_OVERHEAD: Final = 12
"""Offset and length: what comes before a batch's or message's own bytes."""
MAGIC_POSITION: Final = 16
BATCH_OVERHEAD: Final = 61
CRC_POSITION: Final = 17
CRC_START: Final = 21
MAX_TIMESTAMP_POSITION: Final = 35

MESSAGE_OVERHEAD_0: Final = 14
"""Bytes of a magic 0 message with null key and value, counted after offset and size."""
MESSAGE_OVERHEAD_1: Final = 22

CODEC_MASK: Final = 0x07
APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40
KNOWN_BITS: Final = 0x7F

HEADER: Final = Struct(">qiibIhiqqqhii")
"""The 61 bytes of a magic 2 header."""

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)

RECORD_FAULTS_MAX: Final = 10_000
"""Faulty records listed per batch; a batch of millions must not make an answer of millions."""

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """One record as a reader sees it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class BatchHeader(NamedTuple):
    """A batch's header and where the batch starts in the buffer it was read from.

    For a message of magic 0 or 1: both offsets are the message's own (a wrapper's is that of its last inner
    message), ``count`` is 1, or -1 for a wrapper, and what the format lacks is -1.
    """

    position: int
    base_offset: int
    size_bytes: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which a header has no use for

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def end_position(self) -> int:
        return self.position + self.size_bytes

    @property
    def codec_id(self) -> int:
        """The codec bits; ids above ``Compression.ZSTD`` mean nothing."""
        return self.attributes & CODEC_MASK

    @property
    def compression(self) -> Compression:
        """Raises ``ValueError`` for a codec id that means nothing."""
        return Compression(self.attributes & CODEC_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        return (
            TimestampType.LOG_APPEND_TIME if self.attributes & APPEND_TIME_BIT else TimestampType.CREATE_TIME
        )

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT) and self.magic >= 2

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT) and self.magic >= 2

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones and markers in this batch may go, set by the cleaner on its first pass."""
        return self.base_timestamp if self.magic >= 2 and self.attributes & DELETE_HORIZON_BIT else None

    def sifted(self, sifted: FilteredRecords) -> BatchHeader:
        """The header for what stays of this batch; its size and checksum are still to be set."""
        return self._replace(
            attributes=self.attributes & KNOWN_BITS | (DELETE_HORIZON_BIT if sifted.sets_horizon else 0),
            base_timestamp=sifted.base_timestamp,
            max_timestamp=sifted.max_timestamp,
            count=sifted.count,
        )

    def emptied(self) -> BatchHeader:
        """The header that stays of this batch for its producer's sake when no record does."""
        attributes = self.attributes & KNOWN_BITS & ~(DELETE_HORIZON_BIT | CODEC_MASK)
        return self._replace(attributes=attributes, base_timestamp=-1, count=0)

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; sequences wrap to 0 after 2**31 - 1."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return advance_sequence(self.base_sequence, self.last_offset_delta)


class Fault(NamedTuple):
    """A well-formed record that the topic's rules refuse."""

    record_index: int
    offset_delta: int
    timestamp: int
    keyless: bool


class Walked(NamedTuple):
    """What a walk over a batch's records found."""

    max_timestamp: int
    consecutive: bool
    """Offset deltas are 0, 1, 2 …"""
    faults: list[Fault]


class FilterResult(NamedTuple):
    """What the cleaner read of a buffer and what it kept; -1 where nothing was kept.

    The last four say what an index needs of the batches that were appended to the output.
    """

    position: int
    """Where the next batch starts, which is incomplete or needs to be looked at by itself."""
    bytes_read: int
    batches_read: int
    records_read: int
    bytes_kept: int
    batches_kept: int
    records_kept: int
    tombstones_kept: int
    keyless_dropped: int
    last_offset: int
    """The last offset of the last batch kept."""
    last_batch_position: int
    """Where that batch starts in the output."""
    max_timestamp: int
    offset_of_max_timestamp: int
    """The last offset of the first batch that has the largest timestamp."""


class FilteredRecords(NamedTuple):
    """What stays of one batch's records, and what its header must say of them."""

    records: bytes | None
    """Encoded and not compressed, or ``None`` if the batch stays as it is."""
    count: int  # type: ignore[assignment]  # hides tuple.count
    base_timestamp: int
    max_timestamp: int
    sets_horizon: bool


class RecordMetadata(NamedTuple):
    """What became of a record that was sent; ``offset`` is -1 with acks=0."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    serialized_key_size: int
    serialized_value_size: int


class ColumnSet(enum.IntFlag):
    """Which columns are to be made of records."""

    PLACES = 1
    """Topic and partition of each row."""
    OFFSETS = 2
    TIMESTAMPS = 4
    """In milliseconds."""
    TIMESTAMPS_US = 8
    """The same in microseconds, as far as 64 bits reach; not both."""
    TIMESTAMP_TYPES = 16
    KEYS = 32
    VALUES = 64
    HEADERS = 128


POLL_COLUMNS: Final = (
    ColumnSet.PLACES
    | ColumnSet.OFFSETS
    | ColumnSet.TIMESTAMPS
    | ColumnSet.KEYS
    | ColumnSet.VALUES
    | ColumnSet.HEADERS
)
"""The columns that a poll gives."""


class Columns(NamedTuple):
    """Records as columns in native byte order, each ready to be an Arrow buffer.

    ``*_ends`` are int32 offsets (one more than rows); ``*_validity`` are bitmaps, lowest bit first. Headers
    are a list of pairs per row: ``header_ends`` counts pairs. Columns that nobody wanted are empty.
    """

    row_count: int
    topics: tuple[str, ...]
    topic_indices: Buffer
    """int32 per row: which of ``topics``."""
    partitions: Buffer
    """int32"""
    offsets: Buffer
    """int64"""
    timestamps: Buffer
    """int64, milliseconds or microseconds"""
    timestamp_types: Buffer
    """int32: 0 given by the producer, 1 by the broker, -1 in the oldest format, which has no times"""
    key_validity: Buffer
    key_ends: Buffer
    keys: Buffer
    value_validity: Buffer
    value_ends: Buffer
    values: Buffer
    header_validity: Buffer
    """Which rows have headers at all."""
    header_ends: Buffer
    header_name_ends: Buffer
    header_names: Buffer
    """UTF-8; what was sent as something else is replaced."""
    header_value_validity: Buffer
    header_value_ends: Buffer
    header_values: Buffer


def advance_sequence(sequence: int, by: int) -> int:
    """Add to a producer sequence, which goes from 2**31 - 1 back to 0."""
    return (sequence + by) & INT32_MAX


def saturated(value: int) -> int:
    """Bring a sum of two int64 back into int64's range."""
    return min(max(value, INT64_MIN), INT64_MAX)
