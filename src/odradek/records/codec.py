"""The record codec in use: the compiled one, or its Python twin when that is missing or not wanted.

Invariant: the choice is made once, at import, and both give equal results. ``ODRADEK_PURE=1`` in the
environment asks for Python (the compiled part looks; this layer reads no environment). Composition roots say
so in the log: ``COMPILED`` tells which one runs and ``PURE_REASON`` why it is the slow one.
"""

from __future__ import annotations

import zlib
from types import ModuleType
from typing import TYPE_CHECKING, Final

from odradek.ports.files import Buffer
from odradek.records.compression import DECOMPRESSED_BYTES_MAX, decompress
from odradek.records.layout import APPEND_TIME_BIT, BATCH_OVERHEAD, CRC_START, BatchHeader, Columns, Record
from odradek.records.message_set import read_message


def _choose() -> tuple[ModuleType, str | None]:
    """The twin to use, and why if it is the slow one; the other is not even imported."""
    try:
        from odradek.records import _codec
    except ImportError as missing:
        why = f"the compiled record codec cannot be used ({missing})"
    else:
        if not _codec.pure_asked():
            return _codec, None
        why = "ODRADEK_PURE=1 is set"
    from odradek.records.pure import record_batch

    return record_batch, why


_twin, _why_pure = _choose()
if _why_pure is None:
    _sifting_twin = _twin
    _producing_twin = _consuming_twin = _twin
else:
    from odradek.records.pure import batch_filter as _sifting_twin
    from odradek.records.pure import consumer as _consuming_twin
    from odradek.records.pure import producer as _producing_twin

COMPILED: Final = _why_pure is None
PURE_REASON: Final = _why_pure

if TYPE_CHECKING:
    from odradek.records.pure.batch_filter import OffsetMap, filter_batches, filter_records, header_at
    from odradek.records.pure.consumer import (
        ColumnBuilder,
        ConsumerRecord,
        RecordReader,
        allocate_fetch_buffer,
    )
    from odradek.records.pure.producer import (
        BytesColumn,
        Delivery,
        HeadersColumn,
        NumbersColumn,
        ProducerBatch,
        RecordAppender,
        RecordColumns,
        murmur2,
        partition_for_key,
        partitions_for_keys,
        record_size_upper_bound,
        refused_delivery,
    )
    from odradek.records.pure.record_batch import (
        BatchBuffer,
        accept_in_place,
        crc32c,
        decode_records,
        place,
        read_headers,
        stamp,
        walk,
    )
else:
    BatchBuffer = _twin.BatchBuffer
    accept_in_place = _twin.accept_in_place
    crc32c = _twin.crc32c
    decode_records = _twin.decode_records
    place = _twin.place
    read_headers = _twin.read_headers
    stamp = _twin.stamp
    walk = _twin.walk
    OffsetMap = _sifting_twin.OffsetMap
    header_at = _sifting_twin.header_at
    filter_batches = _sifting_twin.filter_batches
    filter_records = _sifting_twin.filter_records
    RecordAppender = _producing_twin.RecordAppender
    BytesColumn = _producing_twin.BytesColumn
    Delivery = _producing_twin.Delivery
    HeadersColumn = _producing_twin.HeadersColumn
    NumbersColumn = _producing_twin.NumbersColumn
    ProducerBatch = _producing_twin.ProducerBatch
    RecordColumns = _producing_twin.RecordColumns
    murmur2 = _producing_twin.murmur2
    partition_for_key = _producing_twin.partition_for_key
    partitions_for_keys = _producing_twin.partitions_for_keys
    record_size_upper_bound = _producing_twin.record_size_upper_bound
    refused_delivery = _producing_twin.refused_delivery
    ColumnBuilder = _consuming_twin.ColumnBuilder
    ConsumerRecord = _consuming_twin.ConsumerRecord
    RecordReader = _consuming_twin.RecordReader
    allocate_fetch_buffer = _consuming_twin.allocate_fetch_buffer

__all__ = [
    "COMPILED",
    "PURE_REASON",
    "RecordAppender",
    "BatchBuffer",
    "Buffer",
    "BytesColumn",
    "ColumnBuilder",
    "Columns",
    "ConsumerRecord",
    "Delivery",
    "HeadersColumn",
    "OffsetMap",
    "NumbersColumn",
    "ProducerBatch",
    "RecordColumns",
    "RecordReader",
    "accept_in_place",
    "allocate_fetch_buffer",
    "crc32c",
    "decode",
    "decode_area",
    "decode_batch",
    "decode_records",
    "header_at",
    "has_valid_crc",
    "murmur2",
    "partition_for_key",
    "partitions_for_keys",
    "place",
    "read_headers",
    "record_size_upper_bound",
    "records_of",
    "refused_delivery",
    "filter_batches",
    "filter_records",
    "stamp",
    "walk",
]


def has_valid_crc(buffer: Buffer, header: BatchHeader) -> bool:
    """Whether the stored checksum of the batch or message is that of its bytes."""
    view = memoryview(buffer)
    if header.magic == 2:
        return crc32c(view[header.position + CRC_START : header.end_position]) == header.crc
    return zlib.crc32(view[header.position + 16 : header.end_position]) == header.crc


def records_of(buffer: Buffer, header: BatchHeader, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> memoryview:
    """The records of a magic 2 batch, decompressed into at most ``bytes_max`` if need be."""
    area = memoryview(buffer)[header.position + BATCH_OVERHEAD : header.end_position]
    return decompress(header.codec_id, area, bytes_max) if header.codec_id else area


def decode_batch(
    buffer: Buffer, header: BatchHeader, bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> list[Record]:
    """The records of one batch of any magic; checksums of magic 2 batches are not looked at."""
    if header.magic < 2:
        return [message.record for message in read_message(buffer, header, bytes_max)]
    return decode_area(records_of(buffer, header, bytes_max), header)


def decode_area(area: memoryview, header: BatchHeader) -> list[Record]:
    """The records in the decompressed area of a magic 2 batch."""
    fixed = bool(header.attributes & APPEND_TIME_BIT)
    timestamp = header.max_timestamp if fixed else header.base_timestamp
    return decode_records(area, header.count, header.base_offset, timestamp, fixed)


def decode(buffer: Buffer) -> list[Record]:
    """All records of all whole batches in ``buffer``, of any magic."""
    return [record for header in read_headers(buffer) for record in decode_batch(buffer, header)]
