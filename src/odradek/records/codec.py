"""Record codec: batch headers, validation in place, decoding, and compaction of plain batches.

The functions are those of ``compiled`` or ``pure``, see ``implementation``. The objects of clients are in
``client``.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from odradek.ports.files import Buffer
from odradek.records.compression import DECOMPRESSED_BYTES_MAX, decompress
from odradek.records.implementation import COMPILED, PURE_REASON
from odradek.records.layout import APPEND_TIME_BIT, BATCH_OVERHEAD, CRC_START, BatchHeader, Record
from odradek.records.message_set import read_message

if TYPE_CHECKING or not COMPILED:
    from odradek.records.pure.batch_filter import filter_batches, filter_records
    from odradek.records.pure.offset_map import OffsetMap, header_at
    from odradek.records.pure.record_batch import (
        BatchBuffer,
        assign_offset,
        crc32c,
        decode_records,
        read_headers,
        scan_records,
        set_max_timestamp,
        validate_in_place,
    )
else:
    from odradek.records.compiled import compaction, record_batch

    BatchBuffer = record_batch.BatchBuffer
    OffsetMap = compaction.OffsetMap
    assign_offset = record_batch.assign_offset
    crc32c = record_batch.crc32c
    decode_records = record_batch.decode_records
    filter_batches = compaction.filter_batches
    filter_records = compaction.filter_records
    header_at = compaction.header_at
    read_headers = record_batch.read_headers
    scan_records = record_batch.scan_records
    set_max_timestamp = record_batch.set_max_timestamp
    validate_in_place = record_batch.validate_in_place

__all__ = [
    "COMPILED",
    "PURE_REASON",
    "BatchBuffer",
    "Buffer",
    "OffsetMap",
    "assign_offset",
    "batch_records",
    "crc32c",
    "decode",
    "decode_batch",
    "decode_batch_records",
    "decode_records",
    "filter_batches",
    "filter_records",
    "has_valid_crc",
    "header_at",
    "read_headers",
    "scan_records",
    "set_max_timestamp",
    "validate_in_place",
]


def has_valid_crc(buffer: Buffer, header: BatchHeader) -> bool:
    """Return whether the CRC of the batch or message matches its bytes."""
    view = memoryview(buffer)
    if header.magic == 2:
        return crc32c(view[header.position + CRC_START : header.end_position]) == header.crc
    return zlib.crc32(view[header.position + 16 : header.end_position]) == header.crc


def batch_records(buffer: Buffer, header: BatchHeader, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> memoryview:
    """Return the encoded records of a magic 2 batch, decompressed to at most ``bytes_max``."""
    records = memoryview(buffer)[header.position + BATCH_OVERHEAD : header.end_position]
    return decompress(header.codec_id, records, bytes_max) if header.codec_id else records


def decode_batch(
    buffer: Buffer, header: BatchHeader, bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> list[Record]:
    """Decode the records of one batch of any magic; CRCs of magic 2 batches are not checked."""
    if header.magic < 2:
        return [message.record for message in read_message(buffer, header, bytes_max)]
    return decode_batch_records(batch_records(buffer, header, bytes_max), header)


def decode_batch_records(records: memoryview, header: BatchHeader) -> list[Record]:
    """Decode the decompressed records of a magic 2 batch."""
    has_append_time = bool(header.attributes & APPEND_TIME_BIT)
    timestamp = header.max_timestamp if has_append_time else header.base_timestamp
    return decode_records(records, header.count, header.base_offset, timestamp, has_append_time)


def decode(buffer: Buffer) -> list[Record]:
    """Decode all records of all complete batches in ``buffer``, of any magic."""
    return [record for header in read_headers(buffer) for record in decode_batch(buffer, header)]
