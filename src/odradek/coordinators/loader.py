"""What the log of an internal topic's partition tells, in order: entries, and ends of transactions.

Read and decoded in threads, a piece at a time. Invariant: what cannot be read is told in the piece's
``faults`` and passed over; nothing in a log keeps the rest of it from being read.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from odradek.coordinators.effects import CoordinatorRecord
from odradek.log.segments import page_in
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import NO_PRODUCER_ID
from odradek.ports.files import FileSlice
from odradek.records import codec
from odradek.records.control_records import ControlRecordType, read_control_type
from odradek.records.layout import BatchHeader
from odradek.replication.partition import Partition


class WrittenRecord(NamedTuple):
    """An entry, and the producer in whose transaction it was written, if it was."""

    entry: CoordinatorRecord
    producer_id: int = NO_PRODUCER_ID


class TransactionMarker(NamedTuple):
    """A producer's transaction ended here."""

    producer_id: int
    commits: bool


LogItem = WrittenRecord | TransactionMarker


class LogChunk(NamedTuple):
    """Some of a log. The next one begins at ``next_offset``."""

    told: list[LogItem]
    next_offset: int
    faults: list[str]


async def read_chunk(partition: Partition, offset: int, end_offset: int, bytes_max: int) -> LogChunk:
    """Read whole batches from ``offset`` on and below ``end_offset``; of the first all, however large.

    Raises OSError, StorageError or BrokerError if the log cannot be read now.
    """
    log = partition.log
    offset = max(offset, log.log_start_offset)
    if offset >= end_offset:
        return LogChunk([], end_offset, [])
    fetched = await page_in.read(
        log.segments, offset, lambda may_block: log.read(offset, bytes_max, end_offset, may_block=may_block)
    )
    segment, data = fetched.segment, fetched.data
    if segment is None or not isinstance(data, FileSlice):
        return LogChunk([], end_offset, [])  # compaction left nothing in between
    later = [one.base_offset for one in log.segments if one.base_offset > segment.base_offset]
    return await partition.offload_read(partial(_decode, data, offset, min([*later, end_offset])))


def _decode(data: FileSlice, offset: int, next_segment_offset: int) -> LogChunk:
    """Runs on a thread."""
    buffer = data.read()
    piece = LogChunk([], next_segment_offset, [])
    next_offset = offset
    try:
        for header in _headers(buffer):
            next_offset = header.last_offset + 1
            try:
                piece.told.extend(_told_by(buffer, header, offset))
            except BrokerError as unreadable:
                piece.faults.append(f"batch at {header.base_offset}: {unreadable}")
    except BrokerError as unreadable:
        # Where the next batch begins is not known: only the next segment's beginning is.
        piece.faults.append(f"from {next_offset} on: {unreadable}")
        return piece
    return piece._replace(next_offset=next_offset)


def _headers(buffer: bytes) -> Iterator[BatchHeader]:
    """The headers of whole batches, one by one, so that those before a broken one are had."""
    position = 0
    while (header := codec.header_at(buffer, position)) is not None:
        yield header
        position = header.end_position
    if position == 0:
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, "a batch is not there as a whole")


def _told_by(buffer: bytes, header: BatchHeader, offset: int) -> list[LogItem]:
    if not codec.has_valid_crc(buffer, header):
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, "its bytes are not those of its checksum")
    records = [record for record in codec.decode_batch(buffer, header) if record.offset >= offset]
    if header.is_control:
        kinds = [read_control_type(record.key) for record in records]
        ends = (ControlRecordType.COMMIT, ControlRecordType.ABORT)
        return [
            TransactionMarker(header.producer_id, kind is ControlRecordType.COMMIT)
            for kind in kinds
            if kind in ends
        ]
    producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
    return [
        WrittenRecord(CoordinatorRecord(record.key, record.value), producer_id)
        for record in records
        if record.key is not None
    ]
