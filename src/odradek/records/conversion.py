"""Conversion between formats: messages of magic 0 and 1 to magic 2 batches, and back for old fetchers.

Invariant: down-conversion keeps offsets; both directions keep keys, values and timestamps as far as the
target has them (magic 0 has no timestamps, neither old format has headers). Down-conversion drops control
batches, which old clients would read as data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.protocol_enums import Compression, TimestampType
from odradek.records import codec
from odradek.records.append_rules import (
    APPEND_TIME_SET,
    MAGIC_MISMATCH,
    MISSING_KEY,
    AppendContext,
    RecordError,
    WorkLimitExceeded,
    invalid_record,
    record_validation_error,
)
from odradek.records.batch import BatchBuilder
from odradek.records.compression import DECOMPRESSED_BYTES_MAX, DecompressedTooLarge
from odradek.records.layout import APPEND_TIME_BIT, RECORD_ERRORS_MAX, BatchHeader, Record
from odradek.records.message_set import read_message, write_message_set


def up_convert(view: memoryview, headers: Sequence[BatchHeader], append: AppendContext) -> bytes:
    """Validate messages and convert them to one magic 2 batch at the next offset."""
    codecs = [header.codec_id for header in headers if header.codec_id]
    source = Compression(codecs[0]) if codecs else Compression.NONE
    builder = BatchBuilder(
        append.next_offset,
        leader_epoch=append.leader_epoch,
        compression=source if append.rules.compression is None else append.rules.compression,
        compression_level=append.rules.compression_level,
        append_time_ms=append.now_ms if append.uses_append_time else None,
    )
    for header in headers:
        if header.magic != headers[0].magic:
            raise invalid_record(
                f"messages of a set must have the same magic, got {headers[0].magic} and {header.magic}"
            )
        for record in _validated_records(view, header, append):
            builder.append(record.timestamp, record.key, record.value)
    return builder.build()


def _validated_records(view: memoryview, header: BatchHeader, append: AppendContext) -> Iterator[Record]:
    """Yield the records of a message up to an invalid one; validate the rest, then raise all errors."""
    errors: list[tuple[int, RecordError]] = []
    for index, message in enumerate(read_message(view, header, append.decompressed_bytes_max)):
        error = _record_error(message.magic, message.record, header, append)
        if error is not None and len(errors) < RECORD_ERRORS_MAX:
            errors.append((index, error))
        elif not errors:
            yield message.record
    if errors:
        raise record_validation_error(errors)


def _record_error(
    magic: int, record: Record, header: BatchHeader, append: AppendContext
) -> RecordError | None:
    if magic != header.magic:
        return MAGIC_MISMATCH
    if append.rules.compacted and record.key is None:
        return MISSING_KEY
    if record.timestamp == -1 or append.uses_append_time:
        has_append_time = header.magic == 1 and header.attributes & APPEND_TIME_BIT
        return APPEND_TIME_SET if has_append_time else None
    earliest, latest = append.timestamp_range
    # The batch builder takes no timestamps before the epoch.
    if max(earliest, 0) <= record.timestamp <= latest:
        return None
    return append.timestamp_error(record.timestamp)


def down_convert(
    data: codec.Buffer,
    magic: Literal[0, 1],
    from_offset: int,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> bytes:
    """Convert complete batches to messages for a fetch at ``from_offset``.

    Converts as many as decompress to ``decompressed_bytes_max`` in total; ``WorkLimitExceeded`` if the first
    does not fit. Records below ``from_offset`` are dropped from uncompressed batches, because some clients
    expect the first message to be the requested one. These formats have no zstd:
    UNSUPPORTED_COMPRESSION_TYPE.
    """
    view = memoryview(data)
    parts: list[bytes] = []
    room_bytes = decompressed_bytes_max
    for header in codec.read_headers(view):
        if header.is_control:
            continue
        if header.codec_id == Compression.ZSTD:
            raise BrokerError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd batches cannot be down-converted")
        if header.magic <= magic:
            parts.append(bytes(view[header.position : header.end_position]))
            continue
        try:
            records = codec.batch_records(view, header, room_bytes)
        except DecompressedTooLarge:
            if parts:
                break
            raise WorkLimitExceeded from None
        room_bytes = max(room_bytes - len(records), 0)
        parts.append(_down_convert_batch(records, header, magic, from_offset))
    return b"".join(parts)


def _down_convert_batch(
    batch_records: memoryview, header: BatchHeader, magic: Literal[0, 1], from_offset: int
) -> bytes:
    records = codec.decode_batch_records(batch_records, header)
    if not header.codec_id:
        records = [record for record in records if record.offset >= from_offset]
    if not records:
        return b""
    has_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    append_time_ms = header.max_timestamp if has_append_time else None
    return write_message_set(records, magic, Compression(header.codec_id), append_time_ms)
