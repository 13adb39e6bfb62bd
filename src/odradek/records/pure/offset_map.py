"""The cleaner's map of keys and how batches fill it, in plain Python: what the compiled one must do.

Invariant: everything here and its namesake in ``_codec`` give equal results, or refuse with equal error
codes, for all inputs. A plain batch is one of magic 2 that is neither compressed nor transactional nor
control; all others are special and left to ``sifting``. Of a batch that is taken the checksum is right: a
flipped bit in a key would cost another key its value.
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

_SPECIAL_BITS = CODEC_MASK | TRANSACTIONAL_BIT | CONTROL_BIT


def header_at(buffer: Buffer, position: int) -> BatchHeader | None:
    """The header of the batch or message at ``position``; ``None`` if it is not there as a whole.

    What no batch can start with is CORRUPT_MESSAGE. The checksum is not looked at.
    """
    if position < 0:
        raise ValueError("positions start at 0")
    left = len(buffer) - position
    if left < LOG_OVERHEAD:
        return None
    size = int.from_bytes(buffer[position + 8 : position + 12], "big", signed=True)
    if size < MESSAGE_OVERHEAD_0:
        raise corrupt("a batch is smaller than any can be", position)
    if left <= LOG_OVERHEAD + 4:
        return None
    magic = buffer[position + MAGIC_POSITION]
    if magic > 2:
        raise corrupt("a batch has a magic that does not exist", position)
    if left < size + LOG_OVERHEAD:
        return None
    return read_header(buffer, position, size, magic)


def corrupt(why: str, position: int) -> BrokerError:
    return BrokerError(ErrorCode.CORRUPT_MESSAGE, f"{why}, at position {position}")


def is_plain(header: BatchHeader) -> bool:
    return header.magic == 2 and not header.attributes & _SPECIAL_BITS


def check_whole(view: memoryview, header: BatchHeader) -> None:
    if crc32c(view[header.position + CRC_START : header.end_position]) != header.crc:
        raise corrupt("a batch's checksum is not that of its bytes", header.position)


def area_of(view: memoryview, header: BatchHeader) -> memoryview:
    return view[header.position + BATCH_OVERHEAD : header.end_position]


class Parts(NamedTuple):
    """One record, as far as the cleaner looks at it."""

    start: int
    body: int
    """Where the key's size is: from there on no rewriting changes a byte."""
    end: int
    attributes: int
    timestamp_delta: int
    offset_delta: int
    key: memoryview | None
    has_value: bool


def read_parts(records: Buffer, count: int) -> list[Parts]:
    """All records of a batch, which must fill ``records``; anything else is CORRUPT_MESSAGE."""
    try:
        if count < 0:
            raise BrokerError(ErrorCode.INVALID_RECORD, f"{count} records")
        return list(_split(RecordCursor(records), count))
    except BrokerError as malformed:
        raise corrupt("a batch's records are not what its header says", 0) from malformed


def _split(reader: RecordCursor, count: int) -> Iterator[Parts]:
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
        yield Parts(start, body, end, attributes, delta, offset_delta, key, value is not None)
    reader.finish()


class OffsetMap:
    """The newest offset of each key, in memory of a fixed size: 24 bytes a slot, a slot a key.

    Keys are kept as keyed hashes of 128 bits: whoever does not know the seed cannot make two keys meet, and
    by chance they do not. ``latest_offset`` is how far the log was looked at. One thread at a time uses it.
    """

    __slots__ = ("_offsets", "_seed", "latest_offset", "slots")

    def __init__(self, slots: int, seed: bytes) -> None:
        if slots < 1 or len(seed) != 16:
            raise ValueError("a map needs a slot or more, and a seed of 16 bytes")
        self.slots = slots
        self._seed = seed
        self.clear()

    @property
    def count(self) -> int:
        return len(self._offsets)

    def clear(self) -> None:
        """Forget all keys."""
        self._offsets: dict[bytes, int] = {}
        self.latest_offset = -1

    def put(self, key: Buffer, offset: int) -> None:
        """Note the key's offset unless a newer one is known; a new key in a full map is a ``ValueError``."""
        if offset < 0:
            raise ValueError("offsets start at 0")
        hashed = self._hash(key)
        if hashed not in self._offsets and self.count >= self.slots:
            raise ValueError(f"all {self.slots} slots are taken")
        self._offsets[hashed] = max(offset, self._offsets.get(hashed, -1))
        self.update_latest_offset(offset)

    def get(self, key: Buffer) -> int:
        """The newest offset of the key, -1 if it is not known."""
        return self._offsets.get(self._hash(key), -1)

    def update_latest_offset(self, offset: int) -> None:
        """Say that the log was looked at up to this offset."""
        self.latest_offset = max(self.latest_offset, offset)

    def put_batches(self, buffer: Buffer, position: int, from_offset: int, count_max: int) -> int:
        """Note the keys at ``from_offset`` or above in plain batches from ``position`` on.

        Returns the position of the first batch that was not taken: a special one, an incomplete one at the
        end, or one whose records might bring ``count`` above ``count_max``. Into an empty map a batch with
        too many records goes as far as there is room, so that a cleaner comes forward: ``latest_offset`` is
        then that of the last record noted. Batches below ``from_offset`` are passed over. A corrupt batch is
        CORRUPT_MESSAGE, nothing of it noted; what came before it is.
        """
        view = memoryview(buffer)
        while (header := header_at(view, position)) is not None and is_plain(header):
            last_offset = wrapped_int64(header.last_offset)
            if last_offset >= max(from_offset, 0):
                check_whole(view, header)
                records = area_of(view, header)
                if not self.put_records(records, header.count, header.base_offset, from_offset, count_max):
                    break
                self.update_latest_offset(last_offset)
            position = header.end_position
        return position

    def put_records(
        self, records: Buffer, count: int, base_offset: int, from_offset: int, count_max: int
    ) -> bool:
        """As ``put_batches``, for the decompressed records of one batch; whether all were taken."""
        rows = read_parts(records, count)
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
