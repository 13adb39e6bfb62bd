"""Prepared requests, built once and sent many times.

Written from the protocol's definition and not with Odradek's codecs, so that a bug there cannot hide here.
All frames have the same correlation id, because responses come in order and it is not checked.

  Produce v7   header v1: api 0, version 7, correlation, client id
               transactional id, acks, timeout, [topic [partition, records]]
  Fetch v11    header v1: api 1, version 11, correlation, client id
               replica -1, wait, min bytes, max bytes, isolation, session 0/-1,
               [topic [partition, leader epoch, offset, log start, max bytes]], [], rack
  ListOffsets v1  header v1: api 2, version 1, correlation, client id
               replica -1, [topic [partition, timestamp]]
  Metadata v4  header v1: api 3, version 4, correlation, client id, [topic], auto creation
"""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from crc32c import crc32c

CORRELATION_ID = 7
CLIENT_ID = b"bench"
TIMEOUT_MS = 30_000
WAIT_MS = 500


class Producer(NamedTuple):
    """Producer fields of a batch."""

    producer_id: int
    epoch: int
    sequence: int


NO_PRODUCER = Producer(-1, -1, -1)


class Exchange(NamedTuple):
    """A request, and the positions of error codes in its response, including the size field."""

    frame: bytes
    error_positions: tuple[int, ...]


def string(value: bytes) -> bytes:
    return struct.pack(">h", len(value)) + value


def framed(api_key: int, version: int, body: bytes) -> bytes:
    header = struct.pack(">hhi", api_key, version, CORRELATION_ID) + string(CLIENT_ID)
    return struct.pack(">i", len(header) + len(body)) + header + body


def _varint(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _record(offset_delta: int, key: bytes | None, value: bytes) -> bytes:
    encoded_key = _varint(-1) if key is None else _varint(len(key)) + key
    body = b"\0" + _varint(0) + _varint(offset_delta) + encoded_key + _varint(len(value)) + value + _varint(0)
    return _varint(len(body)) + body


def batch(
    values: list[bytes],
    keys: Sequence[bytes | None] = (),
    timestamp_ms: int | None = None,
    producer: Producer = NO_PRODUCER,
) -> bytes:
    """Return an uncompressed magic 2 batch, with a key per value or none.

    The default timestamp is now: with an old one, retention could delete the log during a read.
    """
    created_ms = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
    pairs = zip(keys or [None] * len(values), values, strict=True)
    records = b"".join(_record(index, key, value) for index, (key, value) in enumerate(pairs))
    tail = struct.pack(">hiqqqhii", 0, len(values) - 1, created_ms, created_ms, *producer, len(values))
    checked = tail + records
    return struct.pack(">qiibI", 0, len(checked) + 9, -1, 2, crc32c(checked)) + checked


def produce(topic: str, batches: Mapping[int, bytes], acks: int = 1) -> Exchange:
    """Produce v7 of one batch for each partition; the error position is right for a single partition."""
    name = topic.encode()
    body = struct.pack(">hhii", -1, acks, TIMEOUT_MS, 1) + string(name) + struct.pack(">i", len(batches))
    for partition, records in batches.items():
        body += struct.pack(">ii", partition, len(records)) + records
    return Exchange(framed(0, 7, body), (4 + 4 + 4 + 2 + len(name) + 4 + 4,))


def fetch(topic: str, partition: int, offset: int, bytes_max: int) -> Exchange:
    """Fetch v11 without a session, with a response as soon as there are records."""
    name = topic.encode()
    body = struct.pack(">iiiibii", -1, WAIT_MS, 1, 64 << 20, 0, 0, -1)
    body += struct.pack(">i", 1) + string(name) + struct.pack(">i", 1)
    body += struct.pack(">iiqqi", partition, -1, offset, -1, bytes_max)
    body += struct.pack(">i", 0) + string(b"")
    partition_error = 4 + 4 + 4 + 2 + 4 + 4 + 2 + len(name) + 4 + 4
    return Exchange(framed(1, 11, body), (12, partition_error))


def list_offsets(topic: str, partition: int, timestamp_ms: int) -> Exchange:
    """ListOffsets v1; the response ends with error code, timestamp and offset."""
    name = topic.encode()
    body = struct.pack(">ii", -1, 1) + string(name) + struct.pack(">iiq", 1, partition, timestamp_ms)
    return Exchange(framed(2, 1, body), (4 + 4 + 4 + 2 + len(name) + 4 + 4,))


def metadata(topic: str) -> bytes:
    """Metadata v4 with topic auto-creation."""
    return framed(3, 4, struct.pack(">i", 1) + string(topic.encode()) + b"\1")


def api_versions() -> bytes:
    return framed(18, 0, b"")
