"""Builder of magic 2 batches.

Invariant: a built batch passes validation by the leader: length, count, deltas, max timestamp and CRC are
right. See ``layout`` for the format.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from odradek.model.errors import LocalProtocolViolation
from odradek.model.ids import NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from odradek.model.protocol_enums import Compression
from odradek.records import codec
from odradek.records.compression import compress
from odradek.records.layout import (
    APPEND_TIME_BIT,
    BATCH_OVERHEAD,
    CONTROL_BIT,
    CRC_START,
    DELETE_HORIZON_BIT,
    HEADER,
    LOG_OVERHEAD,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Headers,
    Record,
)

__all__ = ["BatchBuilder", "BatchHeader", "Headers", "Record", "build_batch"]


def build_batch(header: BatchHeader, records: bytes) -> bytes:
    """Join a header with encoded records (compressed, if its attributes say so).

    Position, size, magic and CRC of the header are ignored and computed here.
    """
    size = BATCH_OVERHEAD + len(records) - LOG_OVERHEAD
    head = bytearray(HEADER.pack(header.base_offset, size, header.leader_epoch, 2, 0, *header[6:]))
    crc = codec.crc32c(records, codec.crc32c(memoryview(head)[CRC_START:]))
    head[CRC_START - 4 : CRC_START] = crc.to_bytes(4, "big")
    return b"".join((head, records))


@dataclass(slots=True)
class _Producer:
    id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH
    sequence: int = NO_SEQUENCE


class BatchBuilder:
    """Builds one magic 2 batch, record by record.

    ``append_time_ms`` sets the timestamp type LogAppendTime; ``delete_horizon_ms`` replaces the base
    timestamp, as the cleaner needs; ``control`` and ``transactional`` set the attribute bits.
    """

    __slots__ = (
        "_append_time_ms",
        "_bits",
        "_buffer",
        "_compression",
        "_level",
        "_producer",
        "base_offset",
        "leader_epoch",
    )

    def __init__(
        self,
        base_offset: int = 0,
        *,
        leader_epoch: int = NO_LEADER_EPOCH,
        compression: Compression = Compression.NONE,
        compression_level: int | None = None,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        transactional: bool = False,
        control: bool = False,
        append_time_ms: int | None = None,
        delete_horizon_ms: int | None = None,
    ) -> None:
        self.base_offset = base_offset
        self.leader_epoch = leader_epoch
        self._compression = compression
        self._level = compression_level
        self._append_time_ms = append_time_ms
        self._producer = _Producer(producer_id, producer_epoch, base_sequence)
        self._buffer = codec.BatchBuffer(delete_horizon_ms)
        self._bits = (
            compression
            | (APPEND_TIME_BIT if append_time_ms is not None else 0)
            | (TRANSACTIONAL_BIT if transactional else 0)
            | (CONTROL_BIT if control else 0)
            | (DELETE_HORIZON_BIT if delete_horizon_ms is not None else 0)
        )

    @property
    def count(self) -> int:
        return self._buffer.count

    @property
    def size_bytes(self) -> int:
        """Size of the uncompressed batch so far: an upper bound except for incompressible data."""
        return BATCH_OVERHEAD + self._buffer.size_bytes

    def append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Iterable[tuple[str, bytes | None]] = (),
        *,
        offset: int | None = None,
    ) -> int:
        """Add a record at the next offset, or at a higher ``offset``; return ``size_bytes``."""
        delta = -1 if offset is None else offset - self.base_offset
        if offset is not None and delta < 0:
            raise LocalProtocolViolation(
                f"offset must be >= the base offset {self.base_offset}, got {offset}"
            )
        return BATCH_OVERHEAD + self._buffer.append(timestamp, key, value, headers, delta)

    def build(self, *, last_offset: int | None = None) -> bytes:
        """Return the batch; ``last_offset`` sets an end of the offset range beyond the last record."""
        buffer = self._buffer
        if buffer.count == 0 and last_offset is None:
            raise LocalProtocolViolation("an empty batch needs last_offset")
        last_delta = buffer.last_offset_delta if last_offset is None else last_offset - self.base_offset
        max_timestamp = buffer.max_timestamp if self._append_time_ms is None else self._append_time_ms
        header = BatchHeader(
            0,
            self.base_offset,
            0,
            self.leader_epoch,
            2,
            0,
            self._bits,
            last_delta,
            -1 if buffer.base_timestamp is None else buffer.base_timestamp,
            max_timestamp,
            self._producer.id,
            self._producer.epoch,
            self._producer.sequence,
            buffer.count,
        )
        return build_batch(header, compress(self._compression, buffer.records(), self._level))
