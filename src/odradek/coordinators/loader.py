"""Reading the log of an internal topic's partition: its records and transaction markers, in order.

The log is read and decoded on threads, one chunk at a time. Invariant: an unreadable batch is reported in the
chunk's ``faults`` and skipped; it never prevents the rest of the log from being read.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

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
    """A record, or the content of records that were written here, and the producer whose transaction it
    belongs to, if any."""

    record: Any
    producer_id: int = NO_PRODUCER_ID


class TransactionMarker(NamedTuple):
    producer_id: int
    commits: bool


LogItem = WrittenRecord | TransactionMarker


class LogChunk(NamedTuple):
    """A part of a log. The next chunk starts at ``next_offset``."""

    items: list[LogItem]
    next_offset: int
    faults: list[str]


class CommittedBatches(NamedTuple):
    """Batches from an offset on, and the offset at which the next segment, or the end, begins."""

    data: FileSlice
    offset: int
    next_segment_offset: int


async def read_chunk(partition: Partition, offset: int, end_offset: int, bytes_max: int) -> LogChunk:
    """Read whole batches from ``offset`` up to ``end_offset``; the first batch whatever its size.

    Raises OSError, StorageError or BrokerError if the log cannot be read at the moment.
    """
    batches = await _read_batches(partition, offset, end_offset, bytes_max)
    if batches is None:
        return LogChunk([], end_offset, [])  # everything in between was deleted or compacted away
    return await partition.offload_read(partial(_decode, *batches))


async def _read_batches(
    partition: Partition, offset: int, end_offset: int, bytes_max: int
) -> CommittedBatches | None:
    """Return whole batches from ``offset`` up to ``end_offset``; the first one whatever its size."""
    log = partition.log
    offset = max(offset, log.log_start_offset)
    if offset >= end_offset:
        return None
    fetched = await page_in.read(
        log.segments,
        lambda may_block: log.read(offset, bytes_max, end_offset, may_block=may_block),
    )
    segment, data = fetched.segment, fetched.data
    if segment is None or not isinstance(data, FileSlice):
        return None
    later_offsets = [each.base_offset for each in log.segments if each.base_offset > segment.base_offset]
    return CommittedBatches(data, offset, min([*later_offsets, end_offset]))


def _decode(data: FileSlice, offset: int, next_segment_offset: int) -> LogChunk:
    """Runs on a thread."""
    buffer = data.read()
    chunk = LogChunk([], next_segment_offset, [])
    next_offset = offset
    try:
        for header in _headers(buffer):
            next_offset = header.last_offset + 1
            try:
                chunk.items.extend(_items(buffer, header, offset))
            except BrokerError as error:
                chunk.faults.append(f"batch at {header.base_offset}: {error}")
    except BrokerError as error:
        # The start of the next batch is unknown, so continue with the next segment.
        chunk.faults.append(f"from {next_offset} on: {error}")
        return chunk
    return chunk._replace(next_offset=next_offset)


def _headers(buffer: bytes) -> Iterator[BatchHeader]:
    """Yield the headers of whole batches one by one, so that those before a corrupt one are read."""
    position = 0
    while (header := codec.header_at(buffer, position)) is not None:
        yield header
        position = header.end_position
    if position == 0:
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, "the batch is incomplete")


def _items(buffer: bytes, header: BatchHeader, offset: int) -> list[LogItem]:
    if not codec.has_valid_crc(buffer, header):
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, "the checksum does not match")
    records = [record for record in codec.decode_batch(buffer, header) if record.offset >= offset]
    if header.is_control:
        control_types = [read_control_type(record.key) for record in records]
        markers = (ControlRecordType.COMMIT, ControlRecordType.ABORT)
        return [
            TransactionMarker(header.producer_id, control_type is ControlRecordType.COMMIT)
            for control_type in control_types
            if control_type in markers
        ]
    producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
    return [
        WrittenRecord(CoordinatorRecord(record.key, record.value), producer_id)
        for record in records
        if record.key is not None
    ]
