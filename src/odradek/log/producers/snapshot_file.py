"""Format of ``.snapshot`` files: producer state of a log at the offset in the file name. Pure.

Big-endian::

    0   version         int16     1
    2   crc             uint32    CRC-32C of the rest
    6   count           int32
    10  producers, 46 bytes each:

    0   producer id                 int64
    8   epoch                       int16
    10  last sequence               int32     -1 if there is no batch of this epoch
    14  last offset                 int64     of the last batch; -1
    22  offset delta                int32     last minus first offset of that batch
    26  timestamp                   int64     of the last batch or marker
    34  coordinator epoch           int32     of the last marker; -1
    38  transaction's first offset  int64     -1 if none is open

Only the last batch of each producer is stored: after a restart, duplicates of that batch and of batches after
the snapshot are detected.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final

from odradek.log.producers.producer_states import BatchMetadata, ProducerStateEntry
from odradek.model.errors import StorageError
from odradek.model.ids import NO_SEQUENCE, UNKNOWN_OFFSET
from odradek.records.codec import crc32c
from odradek.records.layout import INT32_MAX

VERSION: Final = 1
_HEAD: Final = Struct(">hIi")
_PRODUCER: Final = Struct(">qhiqiqiq")
_CRC_START: Final = 6


def encode_snapshot(producers: Iterable[ProducerStateEntry]) -> bytes:
    """Return the content of the file."""
    pack = _PRODUCER.pack
    rows = []
    for producer_id, epoch, coordinator_epoch, timestamp, transaction, batches in producers:
        sequence, last_offset, delta = NO_SEQUENCE, UNKNOWN_OFFSET, 0
        if batches:
            _, sequence, first_offset, last_offset, _ = batches[-1]
            delta = last_offset - first_offset
        rows.append(
            pack(producer_id, epoch, sequence, last_offset, delta, timestamp, coordinator_epoch, transaction)
        )
    content = bytearray(_HEAD.size)
    _HEAD.pack_into(content, 0, VERSION, 0, len(rows))
    content += b"".join(rows)
    _HEAD.pack_into(content, 0, VERSION, crc32c(memoryview(content)[_CRC_START:]), len(rows))
    return bytes(content)


def decode_snapshot(content: bytes, path: str) -> list[ProducerStateEntry]:
    """Parse a file's content; raises ``StorageError`` with ``path`` if it is corrupt."""
    if len(content) < _HEAD.size:
        raise StorageError(f"{path}: size must be >= {_HEAD.size} bytes, got {len(content)}")
    version, crc, count = _HEAD.unpack_from(content)
    if version != VERSION:
        raise StorageError(f"{path}: Snapshot contained an unknown file version {version}")
    computed = crc32c(memoryview(content)[_CRC_START:])
    if crc != computed:
        raise StorageError(
            f"{path}: Snapshot is corrupt (CRC is no longer valid). "
            f"Stored crc: {crc}. Computed crc: {computed}"
        )
    if count < 0 or len(content) < _HEAD.size + count * _PRODUCER.size:
        raise StorageError(f"{path}: {count} producers do not fit into {len(content)} bytes")
    rows = memoryview(content)[_HEAD.size : _HEAD.size + count * _PRODUCER.size]
    return [_producer(*row) for row in _PRODUCER.iter_unpack(rows)]


def _producer(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    delta: int,
    timestamp: int,
    coordinator_epoch: int,
    transaction: int,
) -> ProducerStateEntry:
    batches: tuple[BatchMetadata, ...] = ()
    if last_offset >= 0:
        first_sequence = last_sequence if last_sequence < 0 else (last_sequence - delta) & INT32_MAX
        batches = (BatchMetadata(first_sequence, last_sequence, last_offset - delta, last_offset, timestamp),)
    return ProducerStateEntry(
        producer_id, epoch, coordinator_epoch, timestamp, max(transaction, UNKNOWN_OFFSET), batches
    )
