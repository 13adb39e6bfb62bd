"""Layout of record batches, and the values decoded from them. Nothing here reads or writes a buffer.

A magic 2 batch, big-endian::

    0   base offset         int64     offset of the first record
    8   length              int32     of everything after this field
    12  leader epoch        int32
    16  magic               int8      2
    17  crc                 uint32    CRC-32C of everything from byte 21 on
    21  attributes          int16     0-2 codec, 3 append time, 4 transactional, 5 control, 6 delete horizon
    23  last offset delta   int32
    27  base timestamp      int64     delete horizon if bit 6 is set
    35  max timestamp       int64
    43  producer id         int64
    51  producer epoch      int16
    53  base sequence       int32
    57  count               int32
    61  records, compressed as a whole if bits 0-2 say so

A record: varint length, int8 attributes, varlong timestamp delta, varint offset delta, varint-sized key,
varint-sized value, varint header count, and for each header a varint-sized key and a varint-sized value.
A size of -1 is null. Base offset and leader epoch precede the CRC's range, so that the leader assigns them
without changing the rest.

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
"""Bytes of offset and length, before the batch or message itself."""
MAGIC_POSITION: Final = 16
BATCH_OVERHEAD: Final = 61
CRC_POSITION: Final = 17
CRC_START: Final = 21
MAX_TIMESTAMP_POSITION: Final = 35

MESSAGE_OVERHEAD_0: Final = 14
"""Size of a magic 0 message with null key and value, without offset and size fields."""
MESSAGE_OVERHEAD_1: Final = 22

CODEC_MASK: Final = 0x07
APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40
DEFINED_ATTRIBUTES: Final = 0x7F

HEADER: Final = Struct(">qiibIhiqqqhii")
"""Header of a magic 2 batch, 61 bytes."""

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)

RECORD_ERRORS_MAX: Final = 10_000
"""Invalid records reported per batch, to bound the response to a batch of millions."""

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """A decoded record."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class BatchHeader(NamedTuple):
    """Header of a batch, and its position in the buffer it was read from.

    For a message of magic 0 or 1 both offsets are that of the message (for a wrapper, of its last inner
    message), ``count`` is 1, or -1 for a wrapper, and fields missing in the format are -1.
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
    count: int  # type: ignore[assignment]  # hides tuple.count

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
        """Codec bits; ids above ``Compression.ZSTD`` are undefined."""
        return self.attributes & CODEC_MASK

    @property
    def compression(self) -> Compression:
        """Codec as an enum; raises ``ValueError`` for an undefined id."""
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
        """Time after which the cleaner may delete tombstones and markers; set by its first pass."""
        return self.base_timestamp if self.magic >= 2 and self.attributes & DELETE_HORIZON_BIT else None

    def with_filtered(self, filtered: FilteredRecords) -> BatchHeader:
        """Return the header for the retained records; size and CRC are still to be set."""
        return self._replace(
            attributes=self.attributes & DEFINED_ATTRIBUTES
            | (DELETE_HORIZON_BIT if filtered.sets_delete_horizon else 0),
            base_timestamp=filtered.base_timestamp,
            max_timestamp=filtered.max_timestamp,
            count=filtered.count,
        )

    def without_records(self) -> BatchHeader:
        """Return the header of an empty batch that keeps the producer state."""
        attributes = self.attributes & DEFINED_ATTRIBUTES & ~(DELETE_HORIZON_BIT | CODEC_MASK)
        return self._replace(attributes=attributes, base_timestamp=-1, count=0)

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; wraps to 0 after 2**31 - 1."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return advance_sequence(self.base_sequence, self.last_offset_delta)


class InvalidRecord(NamedTuple):
    """A well-formed record that violates a topic config."""

    record_index: int
    offset_delta: int
    timestamp: int
    keyless: bool


class RecordScan(NamedTuple):
    """Result of scanning the records of a batch."""

    max_timestamp: int
    consecutive: bool
    """Offset deltas are 0, 1, 2 …"""
    invalid: list[InvalidRecord]


class FilterResult(NamedTuple):
    """Counts of batches and records read and retained; -1 where nothing was retained.

    The last four fields are the index entries of the retained batches.
    """

    position: int
    """Position of the next batch, which is incomplete or not plain."""
    bytes_read: int
    batches_read: int
    records_read: int
    bytes_kept: int
    batches_kept: int
    records_kept: int
    tombstones_kept: int
    keyless_dropped: int
    last_offset: int
    """Last offset of the last retained batch."""
    last_batch_position: int
    """Position of that batch in the output."""
    max_timestamp: int
    offset_of_max_timestamp: int
    """Last offset of the first batch with the max timestamp."""


class FilteredRecords(NamedTuple):
    """Retained records of one batch, and their header fields."""

    records: bytes | None
    """Encoded and uncompressed, or ``None`` if the batch is unchanged."""
    count: int  # type: ignore[assignment]  # hides tuple.count
    base_timestamp: int
    max_timestamp: int
    sets_delete_horizon: bool


class RecordMetadata(NamedTuple):
    """Partition, offset and timestamp of a record that was sent; ``offset`` is -1 with acks=0."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    serialized_key_size: int
    serialized_value_size: int


class ColumnSet(enum.IntFlag):
    """Selection of columns."""

    PARTITIONS = 1
    """Topic and partition."""
    OFFSETS = 2
    TIMESTAMPS = 4
    """In milliseconds."""
    TIMESTAMPS_US = 8
    """In microseconds, saturated to 64 bits; excludes ``TIMESTAMPS``."""
    TIMESTAMP_TYPES = 16
    KEYS = 32
    VALUES = 64
    HEADERS = 128


POLL_COLUMNS: Final = (
    ColumnSet.PARTITIONS
    | ColumnSet.OFFSETS
    | ColumnSet.TIMESTAMPS
    | ColumnSet.KEYS
    | ColumnSet.VALUES
    | ColumnSet.HEADERS
)
"""Columns returned by a poll."""


class Columns(NamedTuple):
    """Records as columns in native byte order, in the layout of Arrow buffers.

    ``*_ends`` are int32 offsets (one more than rows); ``*_validity`` are bitmaps, lowest bit first. Headers
    are a list of pairs per row: ``header_ends`` counts pairs. Columns that were not selected are empty.
    """

    row_count: int
    topics: tuple[str, ...]
    topic_indices: Buffer
    """int32: index into ``topics``"""
    partitions: Buffer
    """int32"""
    offsets: Buffer
    """int64"""
    timestamps: Buffer
    """int64, milliseconds or microseconds"""
    timestamp_types: Buffer
    """int32: 0 CreateTime, 1 LogAppendTime, -1 without timestamp (magic 0)"""
    key_validity: Buffer
    key_ends: Buffer
    keys: Buffer
    value_validity: Buffer
    value_ends: Buffer
    values: Buffer
    header_validity: Buffer
    """Rows with headers."""
    header_ends: Buffer
    header_name_ends: Buffer
    header_names: Buffer
    """UTF-8; invalid bytes are replaced."""
    header_value_validity: Buffer
    header_value_ends: Buffer
    header_values: Buffer


def advance_sequence(sequence: int, by: int) -> int:
    """Increment a producer sequence, which wraps from 2**31 - 1 to 0."""
    return (sequence + by) & INT32_MAX


def saturated(value: int) -> int:
    """Saturate a sum of two int64 to the range of int64."""
    return min(max(value, INT64_MIN), INT64_MAX)
