"""Record batches of magic 2 encoded by hand, so that every field can be made invalid.

Layout: base offset i64, length i32, leader epoch i32, magic i8, CRC-32C u32 of all that follows,
attributes i16, last offset delta i32, base and maximal timestamp i64, producer id i64, producer epoch i16,
base sequence i32, count i32, records.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from crc32c import crc32c

AFTER_CRC = struct.Struct(">hiqqqhii")
BEFORE_LENGTH_BYTES = 12


def varint(value: int) -> bytes:
    """Encode a zigzag varint."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def record(
    offset_delta: int,
    value: bytes | None = b"value",
    key: bytes | None = b"key",
    timestamp_delta: int = 0,
    headers: Sequence[tuple[str, bytes | None]] = (),
) -> bytes:
    """Encode one record with its length."""
    body = bytearray(b"\0" + varint(timestamp_delta) + varint(offset_delta))
    for part in (key, value):
        body += varint(-1) if part is None else varint(len(part)) + part
    body += varint(len(headers))
    for name, content in headers:
        body += varint(len(name)) + name.encode()
        body += varint(-1) if content is None else varint(len(content)) + content
    return varint(len(body)) + bytes(body)


@dataclass(slots=True)
class HandMadeBatch:
    """A batch with settable fields; None is replaced by the correct value."""

    records: Sequence[bytes] = field(default_factory=lambda: [record(0)])
    payload: bytes | None = None
    """Bytes in place of the records: for compressed or invalid content."""
    base_offset: int = 0
    length: int | None = None
    leader_epoch: int = -1
    magic: int = 2
    crc: int | None = None
    attributes: int = 0
    last_offset_delta: int | None = None
    base_timestamp: int = 1_700_000_000_000
    max_timestamp: int = 1_700_000_000_000
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    count: int | None = None

    def build(self) -> bytes:
        """Encode the batch."""
        count = len(self.records) if self.count is None else self.count
        last = len(self.records) - 1 if self.last_offset_delta is None else self.last_offset_delta
        payload = b"".join(self.records) if self.payload is None else self.payload
        covered = AFTER_CRC.pack(
            self.attributes, last, self.base_timestamp, self.max_timestamp,
            self.producer_id, self.producer_epoch, self.base_sequence, count,
        ) + payload  # fmt: skip
        crc = crc32c(covered) if self.crc is None else self.crc
        head = struct.pack(">ibI", self.leader_epoch, self.magic, crc)
        length = len(head) + len(covered) if self.length is None else self.length
        return struct.pack(">qi", self.base_offset, length) + head + covered


def batch_headers(data: bytes) -> list[tuple[int, int, int, int]]:
    """Return (base offset, attributes, count, max timestamp) of each complete batch in a fetched buffer."""
    headers = []
    position = 0
    while position + BEFORE_LENGTH_BYTES <= len(data):
        base_offset, length = struct.unpack_from(">qi", data, position)
        end = position + BEFORE_LENGTH_BYTES + length
        if end > len(data):
            break
        attributes, _, _, max_timestamp, _, _, _, count = AFTER_CRC.unpack_from(data, position + 21)
        headers.append((base_offset, attributes, count, max_timestamp))
        position = end
    return headers


def batch_magics(data: bytes) -> list[int]:
    """Return the magic of each batch or message in a fetched buffer."""
    magics = []
    position = 0
    while position + 17 <= len(data):
        magics.append(data[position + 16])
        position += BEFORE_LENGTH_BYTES + struct.unpack_from(">i", data, position + 8)[0]
    return magics
