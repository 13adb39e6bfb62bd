"""The record codec in plain Python: the specification of the compiled one, and its stand-in.

Invariant: every function here and its namesake in ``_codec`` give equal results, or refuse with equal error
codes, for all inputs. Only magic 2 records are walked here; older messages are in ``message_set``.

Varints are Kafka's: zigzag, at most 5 bytes for int32 and 10 for int64; surplus high bits of the last byte
fall off.
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
    Fault,
    Headers,
    Record,
    Walked,
    saturated,
)

_LEGACY = Struct(">qiIbb")
_TIMESTAMP = Struct(">q")


def pure_asked() -> bool:
    """Whether the environment asks for this module; without the compiled one there is no choice."""
    return True


def crc32c(data: Buffer, value: int = 0) -> int:
    """CRC-32C of ``data``, continuing from ``value``."""
    return int(_crc32c_wheel.crc32c(data, value))


def read_headers(buffer: Buffer, position: int = 0) -> list[BatchHeader]:
    """Headers of all whole batches and messages from ``position`` on; an incomplete last one is left out.

    Refuses with CORRUPT_MESSAGE what no batch can start with: a size below the smallest message's, an unknown
    magic. Checksums are not looked at.
    """
    if position < 0:
        raise ValueError("positions start at 0")
    headers = []
    end = len(buffer)
    while end - position >= LOG_OVERHEAD:
        size = int.from_bytes(buffer[position + 8 : position + 12], "big", signed=True)
        if size < MESSAGE_OVERHEAD_0:
            raise BrokerError(
                ErrorCode.CORRUPT_MESSAGE, f"a batch of {size} bytes is smaller than any can be"
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
            ErrorCode.CORRUPT_MESSAGE, f"{size} bytes are less than a magic {magic} header's {smallest}"
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


def accept_in_place(
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
    """Check and place the usual case in one go: one magic 2 batch that fills a writable buffer.

    It must be uncompressed, or compressed and its ``records`` given as decompressed.

    Returns the header as patched (base offset, leader epoch, max timestamp, and append time if asked), or
    ``None`` with the buffer untouched when anything is unusual or wrong; the caller then finds out what.
    """
    view = memoryview(buffer)
    if view.readonly or not _is_one_batch(view, bytes_max):
        return None
    header = BatchHeader(0, *_without_length(HEADER.unpack_from(view)))
    if bool(header.codec_id) == (records is None):
        return None
    if not _is_placeable(header, from_client) or crc32c(view[CRC_START:]) != header.crc:
        return None
    earliest, latest = saturated(now_ms - before_max_ms), saturated(now_ms + after_max_ms)
    if append_time:
        earliest, latest = INT64_MIN, INT64_MAX
    try:
        content = view[BATCH_OVERHEAD:] if records is None else records
        walked = walk(content, header.count, header.base_timestamp, False, earliest, latest, compacted, 1)
    except BrokerError:
        return None
    if walked.faults or not walked.consecutive:
        return None
    place(view, 0, next_offset, leader_epoch)
    stamped = now_ms if append_time else walked.max_timestamp
    header = header._replace(base_offset=next_offset, leader_epoch=leader_epoch)
    if append_time or stamped != header.max_timestamp:
        attributes = (header.attributes & 0x77) | (APPEND_TIME_BIT if append_time else 0)
        crc = stamp(view, 0, header.size_bytes, attributes, stamped)
        header = header._replace(attributes=attributes, max_timestamp=stamped, crc=crc)
    return header


def _is_one_batch(view: memoryview, bytes_max: int) -> bool:
    if not BATCH_OVERHEAD <= len(view) <= bytes_max or view[16] != 2:
        return False
    return int.from_bytes(view[8:12], "big", signed=True) == len(view) - LOG_OVERHEAD


def _without_length(fields: tuple[int, ...]) -> tuple[int, ...]:
    offset, length, *rest = fields
    return (offset, length + LOG_OVERHEAD, *rest)


def _is_placeable(header: BatchHeader, from_client: bool) -> bool:
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


def place(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Write base offset and leader epoch of the batch at ``position``; its CRC does not cover them."""
    buffer[position : position + 8] = base_offset.to_bytes(8, "big", signed=True)
    buffer[position + 12 : position + 16] = leader_epoch.to_bytes(4, "big", signed=True)


def stamp(
    buffer: bytearray | memoryview, position: int, size: int, attributes: int, max_timestamp: int
) -> int:
    """Write attributes and max timestamp of the batch at ``position`` and renew its CRC, returned."""
    view = memoryview(buffer)[position : position + size]
    view[CRC_START : CRC_START + 2] = attributes.to_bytes(2, "big", signed=True)
    view[MAX_TIMESTAMP_POSITION : MAX_TIMESTAMP_POSITION + 8] = max_timestamp.to_bytes(8, "big", signed=True)
    crc = crc32c(view[CRC_START:])
    view[CRC_POSITION:CRC_START] = crc.to_bytes(4, "big")
    return crc


def walk(
    records: Buffer,
    count: int,
    base_timestamp: int,
    timestamp_fixed: bool,
    earliest_ms: int,
    latest_ms: int,
    compacted: bool,
    faults_max: int,
) -> Walked:
    """Check the structure of ``count`` records that must fill ``records``, and hold them to rules.

    With ``timestamp_fixed`` every record has ``base_timestamp``. A record without timestamp (-1) is in every
    window. At most ``faults_max`` faults are listed. A malformed record is INVALID_RECORD.
    """
    reader = RecordCursor(records)
    max_timestamp, consecutive = -1, True
    faults: list[Fault] = []
    for index in range(count):
        delta, offset_delta, keyless = reader.skip_record()
        timestamp = base_timestamp if timestamp_fixed else wrapped_int64(base_timestamp + delta)
        max_timestamp = max(max_timestamp, timestamp)
        consecutive = consecutive and offset_delta == index
        outside = timestamp != -1 and not earliest_ms <= timestamp <= latest_ms
        refused = compacted and keyless
        if (refused or outside) and len(faults) < faults_max:
            faults.append(Fault(index, offset_delta, timestamp, refused))
    reader.finish()
    return Walked(max_timestamp, consecutive, faults)


def decode_records(
    records: Buffer, count: int, base_offset: int, base_timestamp: int, timestamp_fixed: bool
) -> list[Record]:
    """Read ``count`` records that must fill ``records``; keys and values are copied out."""
    reader = RecordCursor(records)
    decoded = []
    for _ in range(count):
        delta, offset_delta, key, value, headers = reader.read_record()
        timestamp = base_timestamp if timestamp_fixed else wrapped_int64(base_timestamp + delta)
        decoded.append(Record(wrapped_int64(base_offset + offset_delta), timestamp, key, value, headers))
    reader.finish()
    return decoded


class BatchBuffer:
    """Records being gathered for one magic 2 batch, encoded as they come."""

    __slots__ = ("_records", "base_timestamp", "count", "last_offset_delta", "max_timestamp")

    def __init__(self, base_timestamp: int | None = None) -> None:
        self._records = bytearray()
        self.base_timestamp = base_timestamp
        self.max_timestamp = -1
        self.last_offset_delta = -1
        self.count = 0

    @property
    def size_bytes(self) -> int:
        """Bytes of the encoded records so far."""
        return len(self._records)

    def append(
        self,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Iterable[tuple[str, Buffer | None]] = (),
        offset_delta: int = -1,
    ) -> int:
        """Add a record, after the last one unless an offset delta above the last is given; returns the size.

        A batch that would pass 2 GiB, a delta that does not rise and a timestamp below -1 cannot be said:
        ``LocalProtocolViolation``, and nothing is added.
        """
        delta = self.last_offset_delta + 1 if offset_delta < 0 else offset_delta
        if timestamp < -1 or not self.last_offset_delta < delta <= INT32_MAX:
            raise LocalProtocolViolation(f"no record can have timestamp {timestamp} and offset delta {delta}")
        base = timestamp if self.base_timestamp is None else self.base_timestamp
        body = bytearray(1)
        put_varint(body, wrapped_int64(timestamp - base))
        put_varint(body, delta)
        put_sized(body, key)
        put_sized(body, value)
        put_headers(body, headers)
        if len(self._records) + len(body) + 5 > INT32_MAX - BATCH_OVERHEAD:
            raise LocalProtocolViolation("a batch cannot pass 2 GiB")
        put_varint(self._records, len(body))
        self._records += body
        self.base_timestamp = base
        self.max_timestamp = max(self.max_timestamp, timestamp)
        self.last_offset_delta = delta
        self.count += 1
        return len(self._records)

    def records(self) -> bytes:
        """The encoded records, uncompressed."""
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
    given = tuple(headers)
    put_varint(out, len(given))
    for name, value in given:
        if not isinstance(name, str):
            raise LocalProtocolViolation("a record header needs a key")
        put_sized(out, name.encode())
        put_sized(out, value)


def wrapped_int64(value: int) -> int:
    """Wrap as 64-bit arithmetic does."""
    return ((value + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


def malformed(what: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_RECORD, what)


class RecordCursor:
    """A cursor over the records of one batch; any step past the end is INVALID_RECORD."""

    __slots__ = ("data", "end", "position")

    def __init__(self, data: Buffer) -> None:
        self.data = memoryview(data)
        self.position = 0
        self.end = len(self.data)

    def varint(self, bytes_max: int, bits: int) -> int:
        value = shift = 0
        for taken in range(bytes_max):
            if self.position + taken >= self.end:
                raise malformed("a record ends in the middle of a number")
            byte = self.data[self.position + taken]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                self.position += taken + 1
                value &= (1 << bits) - 1
                return (value >> 1) ^ -(value & 1)
        raise malformed(f"a number in a record is longer than {bytes_max} bytes")

    def sized(self) -> memoryview | None:
        size = self.varint(5, 32)
        if size < 0:
            return None
        start = self.position
        if size > self.end - start:
            raise malformed("a field of a record reaches past the end of the batch")
        self.position = start + size
        return self.data[start : self.position]

    def header_count(self) -> int:
        count = self.varint(5, 32)
        if not 0 <= count <= self.end - self.position:
            raise malformed(f"a record claims {count} headers")
        return count

    def header_key(self) -> memoryview:
        key = self.sized()
        if key is None:
            raise malformed("a record header has no key")
        return key

    def start_record(self) -> int:
        size = self.varint(5, 32)
        if size < 1 or size > self.end - self.position:
            raise malformed(f"a record claims {size} bytes")
        self.position += 1
        return self.position - 1 + size

    def end_record(self, expected: int) -> None:
        if self.position != expected:
            raise malformed("a record's size is not that of its fields")

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
            raise malformed("bytes follow the batch's last record")


def _copied(field: memoryview | None) -> bytes | None:
    return None if field is None else bytes(field)
