"""Making magic 2 batches, and the names of what is read from them.

Invariant: a built batch passes its own leader's checks: right length, count, deltas, max timestamp and CRC.
The layout is in ``layout``.
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

__all__ = ["BatchBuilder", "BatchHeader", "Headers", "Record", "seal"]


def seal(header: BatchHeader, records: bytes) -> bytes:
    """Put a header before encoded (and compressed, if its attributes say so) records.

    Position, size, magic and CRC are set here, whatever the header has there.
    """
    fields = header._replace(size_bytes=BATCH_OVERHEAD + len(records) - LOG_OVERHEAD, magic=2, crc=0)[1:]
    head = bytearray(HEADER.pack(*fields))
    crc = codec.crc32c(records, codec.crc32c(memoryview(head)[CRC_START:]))
    head[CRC_START - 4 : CRC_START] = crc.to_bytes(4, "big")
    return b"".join((head, records))


@dataclass(slots=True)
class _Producer:
    id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH
    sequence: int = NO_SEQUENCE


class BatchBuilder:
    """Gathers records and builds one magic 2 batch of them.

    ``append_time_ms`` makes it a batch with append time; ``delete_horizon_ms`` takes the base timestamp's
    place, as the cleaner needs; ``control`` and ``transactional`` set the bits.
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
        """The batch's size if built now without compression: an upper bound unless the data resists it."""
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
        """Add a record at the next offset, or at a given higher one; returns ``size_bytes``."""
        delta = -1 if offset is None else offset - self.base_offset
        if offset is not None and delta < 0:
            raise LocalProtocolViolation(f"offset {offset} is below the batch's {self.base_offset}")
        return BATCH_OVERHEAD + self._buffer.append(timestamp, key, value, headers, delta)

    def build(self, *, last_offset: int | None = None) -> bytes:
        """The batch's bytes; ``last_offset`` keeps a range that the last record no longer reaches."""
        buffer = self._buffer
        if buffer.count == 0 and last_offset is None:
            raise LocalProtocolViolation("a batch without records needs a last offset")
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
        return seal(header, compress(self._compression, buffer.records(), self._level))
