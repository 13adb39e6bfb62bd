"""Batch headers, record scanning and encoding of magic 2 batches. Older messages are in ``message_set``.

Invariant: every function here and its namesake in ``compiled.record_batch`` return equal results, or raise
equal error codes, for all inputs.

Varints are Kafka's: zigzag, at most 5 bytes for int32 and 10 for int64; excess high bits of the last byte are
dropped.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

import crc32c as _crc32c_wheel

from odradek.model.errors import BrokerError, ErrorCode, LocalProtocolViolation
from odradek.ports.files import Buffer
from odradek.records.layout import (
    APPEND_TIME_BIT,
    BATCH_OVERHEAD,
    CODEC_MASK,
    CONTROL_BIT,
    CRC_POSITION,
    CRC_START,
    HEADER,
    INT32_MAX,
    INT64_MAX,
    INT64_MIN,
    LOG_OVERHEAD,
    MAX_TIMESTAMP_POSITION,
    MESSAGE_OVERHEAD_0,
    MESSAGE_OVERHEAD_1,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Headers,
    InvalidRecord,
    Record,
    RecordScan,
    saturated,
)

_LEGACY = Struct(">qiIbb")
_TIMESTAMP = Struct(">q")


def crc32c(data: Buffer, value: int = 0) -> int:
    """Return the CRC-32C of ``data``, continued from ``value``."""
    return int(_crc32c_wheel.crc32c(data, value))


def read_headers(buffer: Buffer, position: int = 0) -> list[BatchHeader]:
    """Return the headers of all complete batches and messages from ``position`` on.

    Raises CORRUPT_MESSAGE for a size below the smallest message and for an unknown magic. CRCs are not
    checked.
    """
    if position < 0:
        raise ValueError(f"position must be >= 0, got {position}")
    headers = []
    end = len(buffer)
    while end - position >= LOG_OVERHEAD:
        size = int.from_bytes(buffer[position + 8 : position + 12], "big", signed=True)
        if size < MESSAGE_OVERHEAD_0:
            raise BrokerError(
                ErrorCode.CORRUPT_MESSAGE, f"size of a batch must be >= {MESSAGE_OVERHEAD_0}, got {size}"
            )
        if end - position <= LOG_OVERHEAD + 4:
            break
        magic = buffer[position + 16]
        if magic > 2:
            raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"unknown magic {magic}")
        if end - position < size + LOG_OVERHEAD:
            break
        headers.append(read_header(buffer, position, size, magic))
        position += size + LOG_OVERHEAD
    return headers


def read_header(buffer: Buffer, position: int, size: int, magic: int) -> BatchHeader:
    smallest = (MESSAGE_OVERHEAD_0, MESSAGE_OVERHEAD_1, BATCH_OVERHEAD - LOG_OVERHEAD)[magic]
    if size < smallest:
        raise BrokerError(
            ErrorCode.CORRUPT_MESSAGE, f"size of a magic {magic} batch must be >= {smallest}, got {size}"
        )
    total = size + LOG_OVERHEAD
    if magic == 2:
        offset, _, leader_epoch, _, *rest = HEADER.unpack_from(buffer, position)
        return BatchHeader(position, offset, total, leader_epoch, magic, *rest)
    offset, _, crc, _, attributes = _LEGACY.unpack_from(buffer, position)
    timestamp = _TIMESTAMP.unpack_from(buffer, position + 18)[0] if magic else -1
    count = -1 if attributes & CODEC_MASK else 1
    return BatchHeader(
        position, offset, total, -1, magic, crc, attributes, 0, timestamp, timestamp, -1, -1, -1, count
    )


def validate_in_place(
    buffer: Buffer,
    next_offset: int,
    leader_epoch: int,
    now_ms: int,
    append_time: int,
    before_max_ms: int,
    after_max_ms: int,
    bytes_max: int,
    compacted: bool,
    from_client: bool,
    records: Buffer | None = None,
) -> BatchHeader | None:
    """Validate one magic 2 batch that fills a writable buffer, and assign its offset in place.

    The batch is uncompressed, or compressed with its decompressed ``records`` passed separately.

    Returns the patched header (base offset, leader epoch, max timestamp, and timestamp type if
    ``append_time``), or ``None`` with the buffer unchanged for anything unusual or invalid, which the caller
    then examines.
    """
    view = memoryview(buffer)
    if view.readonly or not _is_one_batch(view, bytes_max):
        return None
    header = BatchHeader(0, *_without_length(HEADER.unpack_from(view)))
    if bool(header.codec_id) == (records is None):
        return None
    if not _can_assign(header, from_client) or crc32c(view[CRC_START:]) != header.crc:
        return None
    earliest, latest = saturated(now_ms - before_max_ms), saturated(now_ms + after_max_ms)
    if append_time:
        earliest, latest = INT64_MIN, INT64_MAX
    try:
        content = view[BATCH_OVERHEAD:] if records is None else records
        scan = scan_records(
            content, header.count, header.base_timestamp, False, earliest, latest, compacted, 1
        )
    except BrokerError:
        return None
    if scan.invalid or not scan.consecutive:
        return None
    assign_offset(view, 0, next_offset, leader_epoch)
    max_timestamp = now_ms if append_time else scan.max_timestamp
    header = header._replace(base_offset=next_offset, leader_epoch=leader_epoch)
    if append_time or max_timestamp != header.max_timestamp:
        attributes = (header.attributes & 0x77) | (APPEND_TIME_BIT if append_time else 0)
        crc = set_max_timestamp(view, 0, header.size_bytes, attributes, max_timestamp)
        header = header._replace(attributes=attributes, max_timestamp=max_timestamp, crc=crc)
    return header


def _is_one_batch(view: memoryview, bytes_max: int) -> bool:
    if not BATCH_OVERHEAD <= len(view) <= bytes_max or view[16] != 2:
        return False
    return int.from_bytes(view[8:12], "big", signed=True) == len(view) - LOG_OVERHEAD


def _without_length(fields: tuple[int, ...]) -> tuple[int, ...]:
    offset, length, *rest = fields
    return (offset, length + LOG_OVERHEAD, *rest)


def _can_assign(header: BatchHeader, from_client: bool) -> bool:
    if header.attributes & APPEND_TIME_BIT:
        return False
    if header.count <= 0 or header.last_offset_delta != header.count - 1:
        return False
    if not from_client:
        return True
    if header.base_offset or header.attributes & CONTROL_BIT:
        return False
    if header.producer_id < 0:
        return not header.attributes & TRANSACTIONAL_BIT
    return header.base_sequence >= 0 and header.producer_epoch >= 0


def assign_offset(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Set base offset and leader epoch of the batch at ``position``, which the CRC does not cover."""
    buffer[position : position + 8] = base_offset.to_bytes(8, "big", signed=True)
    buffer[position + 12 : position + 16] = leader_epoch.to_bytes(4, "big", signed=True)


def set_max_timestamp(
    buffer: bytearray | memoryview, position: int, size: int, attributes: int, max_timestamp: int
) -> int:
    """Set attributes and max timestamp of the batch at ``position``; return its new CRC."""
    view = memoryview(buffer)[position : position + size]
    view[CRC_START : CRC_START + 2] = attributes.to_bytes(2, "big", signed=True)
    view[MAX_TIMESTAMP_POSITION : MAX_TIMESTAMP_POSITION + 8] = max_timestamp.to_bytes(8, "big", signed=True)
    crc = crc32c(view[CRC_START:])
    view[CRC_POSITION:CRC_START] = crc.to_bytes(4, "big")
    return crc


def scan_records(
    records: Buffer,
    count: int,
    base_timestamp: int,
    timestamp_fixed: bool,
    earliest_ms: int,
    latest_ms: int,
    compacted: bool,
    invalid_max: int,
) -> RecordScan:
    """Check the structure of ``count`` records that must fill ``records``, and the topic's rules.

    With ``timestamp_fixed`` every record has ``base_timestamp``. A record without timestamp (-1) is always in
    range. At most ``invalid_max`` invalid records are listed. A malformed record raises INVALID_RECORD.
    """
    reader = RecordCursor(records)
    max_timestamp, consecutive = -1, True
    invalid: list[InvalidRecord] = []
    for index in range(count):
        delta, offset_delta, keyless = reader.skip_record()
        timestamp = base_timestamp if timestamp_fixed else wrapped_int64(base_timestamp + delta)
        max_timestamp = max(max_timestamp, timestamp)
        consecutive = consecutive and offset_delta == index
        out_of_range = timestamp != -1 and not earliest_ms <= timestamp <= latest_ms
        lacks_key = compacted and keyless
        if (lacks_key or out_of_range) and len(invalid) < invalid_max:
            invalid.append(InvalidRecord(index, offset_delta, timestamp, lacks_key))
    reader.finish()
    return RecordScan(max_timestamp, consecutive, invalid)


def decode_records(
    records: Buffer, count: int, base_offset: int, base_timestamp: int, timestamp_fixed: bool
) -> list[Record]:
    """Decode ``count`` records that must fill ``records``; keys and values are copied."""
    reader = RecordCursor(records)
    decoded = []
    for _ in range(count):
        delta, offset_delta, key, value, headers = reader.read_record()
        timestamp = base_timestamp if timestamp_fixed else wrapped_int64(base_timestamp + delta)
        decoded.append(Record(wrapped_int64(base_offset + offset_delta), timestamp, key, value, headers))
    reader.finish()
    return decoded


class BatchBuffer:
    """Encoded records of a magic 2 batch under construction."""

    __slots__ = ("_records", "base_timestamp", "count", "last_offset_delta", "max_timestamp")

    def __init__(self, base_timestamp: int | None = None) -> None:
        self._records = bytearray()
        self.base_timestamp = base_timestamp
        self.max_timestamp = -1
        self.last_offset_delta = -1
        self.count = 0

    @property
    def size_bytes(self) -> int:
        """Size of the encoded records so far."""
        return len(self._records)

    def append(
        self,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Iterable[tuple[str, Buffer | None]] = (),
        offset_delta: int = -1,
    ) -> int:
        """Add a record at the next offset delta, or at a higher one; return the size.

        Raises ``LocalProtocolViolation``, and adds nothing, for a batch above 2 GiB, an offset delta that
        does not increase, or a timestamp below -1.
        """
        delta = self.last_offset_delta + 1 if offset_delta < 0 else offset_delta
        if timestamp < -1 or not self.last_offset_delta < delta <= INT32_MAX:
            raise LocalProtocolViolation(
                f"timestamp must be >= -1 and offset delta > {self.last_offset_delta}, "
                f"got {timestamp} and {delta}"
            )
        base = timestamp if self.base_timestamp is None else self.base_timestamp
        body = bytearray(1)
        put_varint(body, wrapped_int64(timestamp - base))
        put_varint(body, delta)
        put_sized(body, key)
        put_sized(body, value)
        put_headers(body, headers)
        if len(self._records) + len(body) + 5 > INT32_MAX - BATCH_OVERHEAD:
            raise LocalProtocolViolation("size of a batch must be <= 2 GiB")
        put_varint(self._records, len(body))
        self._records += body
        self.base_timestamp = base
        self.max_timestamp = max(self.max_timestamp, timestamp)
        self.last_offset_delta = delta
        self.count += 1
        return len(self._records)

    def records(self) -> bytes:
        """Return the encoded, uncompressed records."""
        return bytes(self._records)


def put_varint(out: bytearray, value: int) -> None:
    zigzag = (value << 1) ^ (value >> 63)
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)


def put_sized(out: bytearray, data: Buffer | None) -> None:
    if data is None:
        out.append(1)
    else:
        put_varint(out, memoryview(data).nbytes)
        out += data


def put_headers(out: bytearray, headers: Iterable[tuple[str, Buffer | None]]) -> None:
    pairs = tuple(headers)
    put_varint(out, len(pairs))
    for name, value in pairs:
        if not isinstance(name, str):
            raise LocalProtocolViolation("key of a record header must be a str")
        put_sized(out, name.encode())
        put_sized(out, value)


def wrapped_int64(value: int) -> int:
    """Wrap around as 64-bit arithmetic does."""
    return ((value + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


def malformed(message: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_RECORD, message)


class RecordCursor:
    """Cursor over the records of a batch; reading past the end raises INVALID_RECORD."""

    __slots__ = ("data", "end", "position")

    def __init__(self, data: Buffer) -> None:
        self.data = memoryview(data)
        self.position = 0
        self.end = len(self.data)

    def varint(self, bytes_max: int, bits: int) -> int:
        value = shift = 0
        for index in range(bytes_max):
            if self.position + index >= self.end:
                raise malformed("record ends within a varint")
            byte = self.data[self.position + index]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                self.position += index + 1
                value &= (1 << bits) - 1
                return (value >> 1) ^ -(value & 1)
        raise malformed(f"varint must have <= {bytes_max} bytes")

    def sized(self) -> memoryview | None:
        size = self.varint(5, 32)
        if size < 0:
            return None
        start = self.position
        if size > self.end - start:
            raise malformed("field of a record exceeds the batch")
        self.position = start + size
        return self.data[start : self.position]

    def header_count(self) -> int:
        count = self.varint(5, 32)
        if not 0 <= count <= self.end - self.position:
            raise malformed(f"header count of a record must be in 0..{self.end - self.position}, got {count}")
        return count

    def header_key(self) -> memoryview:
        key = self.sized()
        if key is None:
            raise malformed("key of a record header must not be null")
        return key

    def start_record(self) -> int:
        size = self.varint(5, 32)
        if size < 1 or size > self.end - self.position:
            raise malformed(f"size of a record must be in 1..{self.end - self.position}, got {size}")
        self.position += 1
        return self.position - 1 + size

    def end_record(self, expected: int) -> None:
        if self.position != expected:
            raise malformed("size of a record does not match its fields")

    def skip_record(self) -> tuple[int, int, bool]:
        expected = self.start_record()
        delta, offset_delta = self.varint(10, 64), self.varint(5, 32)
        keyless = self.sized() is None
        self.sized()
        for _ in range(self.header_count()):
            self.header_key()
            self.sized()
        self.end_record(expected)
        return delta, offset_delta, keyless

    def read_record(self) -> tuple[int, int, bytes | None, bytes | None, Headers]:
        expected = self.start_record()
        delta, offset_delta = self.varint(10, 64), self.varint(5, 32)
        key, value = _copied(self.sized()), _copied(self.sized())
        headers = tuple(
            (str(self.header_key(), "utf-8", "replace"), _copied(self.sized()))
            for _ in range(self.header_count())
        )
        self.end_record(expected)
        return delta, offset_delta, key, value, headers

    def finish(self) -> None:
        if self.position != self.end:
            raise malformed("trailing bytes after the last record")


def _copied(field: memoryview | None) -> bytes | None:
    return None if field is None else bytes(field)
