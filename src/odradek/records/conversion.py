"""Between the formats: messages of magic 0 and 1 into magic 2 batches, and back for old fetchers.

Invariant: offsets survive a down-conversion; keys, values and timestamps survive both ways as far as the
target has them (magic 0 has no timestamps, neither has headers). Down-conversion leaves out control batches,
which old clients would take for data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.protocol_enums import Compression, TimestampType
from odradek.records import codec
from odradek.records.append_rules import (
    KEYLESS,
    MARKED,
    OTHER_MAGIC,
    Append,
    RecordFault,
    WorkLimitExceeded,
    record_errors,
    refused,
)
from odradek.records.batch import BatchBuilder
from odradek.records.compression import DECOMPRESSED_BYTES_MAX, DecompressedTooLarge
from odradek.records.layout import APPEND_TIME_BIT, RECORD_FAULTS_MAX, BatchHeader, Record
from odradek.records.message_set import read_message, write_message_set


def up_convert(view: memoryview, headers: Sequence[BatchHeader], append: Append) -> bytes:
    """Check messages against the topic's rules and make one magic 2 batch of them, in its place."""
    codecs = [header.codec_id for header in headers if header.codec_id]
    source = Compression(codecs[0]) if codecs else Compression.NONE
    builder = BatchBuilder(
        append.next_offset,
        leader_epoch=append.leader_epoch,
        compression=source if append.rules.compression is None else append.rules.compression,
        compression_level=append.rules.compression_level,
        append_time_ms=append.now_ms if append.stamps else None,
    )
    for header in headers:
        if header.magic != headers[0].magic:
            raise refused(f"a message of magic {header.magic} after one of magic {headers[0].magic}")
        for record in _checked(view, header, append):
            builder.append(record.timestamp, record.key, record.value)
    return builder.build()


def _checked(view: memoryview, header: BatchHeader, append: Append) -> Iterator[Record]:
    """The records of a message up to the first that breaks a rule; then the rest is only looked at."""
    faults: list[tuple[int, RecordFault]] = []
    for index, message in enumerate(read_message(view, header, append.decompressed_bytes_max)):
        fault = _fault(message.magic, message.record, header, append)
        if fault is not None and len(faults) < RECORD_FAULTS_MAX:
            faults.append((index, fault))
        elif not faults:
            yield message.record
    if faults:
        raise record_errors(faults)


def _fault(magic: int, record: Record, header: BatchHeader, append: Append) -> RecordFault | None:
    if magic != header.magic:
        return OTHER_MAGIC
    if append.rules.compacted and record.key is None:
        return KEYLESS
    if record.timestamp == -1 or append.stamps:
        marked = header.magic == 1 and header.attributes & APPEND_TIME_BIT
        return MARKED if marked else None
    earliest, latest = append.window
    # Times before the epoch have no place in a batch that is built anew.
    return None if max(earliest, 0) <= record.timestamp <= latest else append.late(record.timestamp)


def down_convert(
    data: codec.Buffer,
    magic: Literal[0, 1],
    from_offset: int,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> bytes:
    """Rewrite whole batches as messages for a fetcher that asked from ``from_offset``.

    As many as unpack to ``decompressed_bytes_max`` together; ``WorkLimitExceeded`` if the first does not.
    Records
    below ``from_offset`` are dropped from uncompressed batches, because some clients trust the first message
    to be the one they asked for. Zstd has no place in these formats: UNSUPPORTED_COMPRESSION_TYPE.
    """
    view = memoryview(data)
    parts: list[bytes] = []
    room_bytes = decompressed_bytes_max
    for header in codec.read_headers(view):
        if header.is_control:
            continue
        if header.codec_id == Compression.ZSTD:
            raise BrokerError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd cannot be down-converted")
        if header.magic <= magic:
            parts.append(bytes(view[header.position : header.end_position]))
            continue
        try:
            area = codec.records_of(view, header, room_bytes)
        except DecompressedTooLarge:
            if parts:
                break
            raise WorkLimitExceeded from None
        room_bytes = max(room_bytes - len(area), 0)
        parts.append(_down_converted(area, header, magic, from_offset))
    return b"".join(parts)


def _down_converted(area: memoryview, header: BatchHeader, magic: Literal[0, 1], from_offset: int) -> bytes:
    """Write the records of a magic 2 batch as messages."""
    records = codec.decode_area(area, header)
    if not header.codec_id:
        records = [record for record in records if record.offset >= from_offset]
    if not records:
        return b""
    stamped = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    append_time_ms = header.max_timestamp if stamped else None
    return write_message_set(records, magic, Compression(header.codec_id), append_time_ms)
