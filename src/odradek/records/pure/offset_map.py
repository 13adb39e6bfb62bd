"""The cleaner's offset map: the latest offset of each key.

Invariant: everything here and its namesake in ``compiled.compaction`` return equal results, or raise equal
error codes, for all inputs. A plain batch has magic 2 and is neither compressed nor transactional nor
control; all others are left to ``records.batch_filter``. The CRC of every batch put into the map is checked:
a flipped bit in a key could delete the value of another key.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import NamedTuple

from odradek.model.errors import BrokerError, ErrorCode
from odradek.ports.files import Buffer
from odradek.records.layout import (
    BATCH_OVERHEAD,
    CODEC_MASK,
    CONTROL_BIT,
    CRC_START,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MESSAGE_OVERHEAD_0,
    TRANSACTIONAL_BIT,
    BatchHeader,
)
from odradek.records.pure.record_batch import RecordCursor, crc32c, read_header, wrapped_int64

_NOT_PLAIN_BITS = CODEC_MASK | TRANSACTIONAL_BIT | CONTROL_BIT


def header_at(buffer: Buffer, position: int) -> BatchHeader | None:
    """Return the header of the batch or message at ``position``; ``None`` if it is incomplete.

    Raises CORRUPT_MESSAGE for bytes that start no batch. The CRC is not checked.
    """
    if position < 0:
        raise ValueError(f"position must be >= 0, got {position}")
    left = len(buffer) - position
    if left < LOG_OVERHEAD:
        return None
    size = int.from_bytes(buffer[position + 8 : position + 12], "big", signed=True)
    if size < MESSAGE_OVERHEAD_0:
        raise corrupt("size of a batch is below the minimum", position)
    if left <= LOG_OVERHEAD + 4:
        return None
    magic = buffer[position + MAGIC_POSITION]
    if magic > 2:
        raise corrupt("unknown magic", position)
    if left < size + LOG_OVERHEAD:
        return None
    return read_header(buffer, position, size, magic)


def corrupt(reason: str, position: int) -> BrokerError:
    return BrokerError(ErrorCode.CORRUPT_MESSAGE, f"{reason}, at position {position}")


def is_plain(header: BatchHeader) -> bool:
    return header.magic == 2 and not header.attributes & _NOT_PLAIN_BITS


def check_crc(view: memoryview, header: BatchHeader) -> None:
    if crc32c(view[header.position + CRC_START : header.end_position]) != header.crc:
        raise corrupt("CRC of a batch does not match its bytes", header.position)


def plain_records(view: memoryview, header: BatchHeader) -> memoryview:
    return view[header.position + BATCH_OVERHEAD : header.end_position]


class RecordFields(NamedTuple):
    """Fields of a record used by the cleaner."""

    start: int
    body: int
    """Position of the key's size; a rewritten record is unchanged from there on."""
    end: int
    attributes: int
    timestamp_delta: int
    offset_delta: int
    key: memoryview | None
    has_value: bool


def read_fields(records: Buffer, count: int) -> list[RecordFields]:
    """Read ``count`` records that must fill ``records``; raise CORRUPT_MESSAGE otherwise."""
    try:
        if count < 0:
            raise BrokerError(ErrorCode.INVALID_RECORD, f"record count must be >= 0, got {count}")
        return list(_split(RecordCursor(records), count))
    except BrokerError as error:
        raise corrupt("records of a batch do not match its header", 0) from error


def _split(reader: RecordCursor, count: int) -> Iterator[RecordFields]:
    for _ in range(count):
        start = reader.position
        end = reader.start_record()
        attributes = reader.data[reader.position - 1]
        delta, offset_delta = reader.varint(10, 64), reader.varint(5, 32)
        body = reader.position
        key, value = reader.sized(), reader.sized()
        for _ in range(reader.header_count()):
            reader.header_key()
            reader.sized()
        reader.end_record(end)
        yield RecordFields(start, body, end, attributes, delta, offset_delta, key, value is not None)
    reader.finish()


class OffsetMap:
    """Latest offset of each key, in memory of a fixed size: one slot of 24 bytes per key.

    Keys are stored as keyed 128-bit hashes: without the seed a collision cannot be constructed.
    ``latest_offset`` is the last offset read from the log. Not for concurrent use.
    """

    __slots__ = ("_offsets", "_seed", "latest_offset", "slots")

    def __init__(self, slots: int, seed: bytes) -> None:
        if slots < 1 or len(seed) != 16:
            raise ValueError(f"slots must be >= 1 and seed must have 16 bytes, got {slots} and {len(seed)}")
        self.slots = slots
        self._seed = seed
        self.clear()

    @property
    def count(self) -> int:
        return len(self._offsets)

    def clear(self) -> None:
        """Remove all keys."""
        self._offsets: dict[bytes, int] = {}
        self.latest_offset = -1

    def put(self, key: Buffer, offset: int) -> None:
        """Set the key's offset unless it has a later one; raise ``ValueError`` if the map is full."""
        if offset < 0:
            raise ValueError(f"offset must be >= 0, got {offset}")
        key_hash = self._hash(key)
        if key_hash not in self._offsets and self.count >= self.slots:
            raise ValueError(f"map is full: all {self.slots} slots are used")
        self._offsets[key_hash] = max(offset, self._offsets.get(key_hash, -1))
        self.update_latest_offset(offset)

    def get(self, key: Buffer) -> int:
        """Return the latest offset of the key, -1 if unknown."""
        return self._offsets.get(self._hash(key), -1)

    def update_latest_offset(self, offset: int) -> None:
        """Advance ``latest_offset``."""
        self.latest_offset = max(self.latest_offset, offset)

    def put_batches(self, buffer: Buffer, position: int, from_offset: int, count_max: int) -> int:
        """Put the keys at ``from_offset`` or above of plain batches from ``position`` on.

        Returns the position of the first batch not put: one that is not plain, an incomplete one, or one
        whose records might raise ``count`` above ``count_max``. Into an empty map a batch with too many
        records is put partially, so that the cleaner makes progress: ``latest_offset`` is then that of the
        last record put. Batches below ``from_offset`` are skipped. A corrupt batch raises CORRUPT_MESSAGE;
        the batches before it are put, and nothing of it.
        """
        view = memoryview(buffer)
        while (header := header_at(view, position)) is not None and is_plain(header):
            last_offset = wrapped_int64(header.last_offset)
            if last_offset >= max(from_offset, 0):
                check_crc(view, header)
                records = plain_records(view, header)
                if not self.put_records(records, header.count, header.base_offset, from_offset, count_max):
                    break
                self.update_latest_offset(last_offset)
            position = header.end_position
        return position

    def put_records(
        self, records: Buffer, count: int, base_offset: int, from_offset: int, count_max: int
    ) -> bool:
        """Put the decompressed records of one batch, as ``put_batches`` does; return whether all were put."""
        rows = read_fields(records, count)
        room = min(count_max, self.slots)
        if self.count and count > room - self.count:
            return False
        for row in rows:
            offset = wrapped_int64(base_offset + row.offset_delta)
            if row.key is None or offset < max(from_offset, 0):
                continue
            if self.count >= room:
                return False
            self.put(row.key, offset)
        return True

    def _hash(self, key: Buffer) -> bytes:
        return blake2b(key, digest_size=16, key=self._seed).digest()
