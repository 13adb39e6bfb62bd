"""Compaction of single batches of any kind: compressed, transactional, control, magic 0 and 1.

Invariant: offsets, keys, values, headers and timestamps of retained records are unchanged, and so are magic
and codec. Records are retained by the rules of ``pure.batch_filter``; facts from the rest of the log
(aborted, last batch of its producer, end of an empty transaction) come from the caller. A batch with a wrong
CRC raises CORRUPT_MESSAGE.
"""

from __future__ import annotations

from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.protocol_enums import Compression
from odradek.ports.files import Buffer
from odradek.records import codec
from odradek.records.batch import build_batch
from odradek.records.codec import OffsetMap
from odradek.records.compression import DECOMPRESSED_BYTES_MAX, compress
from odradek.records.layout import APPEND_TIME_BIT, BatchHeader, Record
from odradek.records.message_set import Message, read_message, write_message_set


def put_batch(buffer: Buffer, header: BatchHeader, keys: OffsetMap, from_offset: int, count_max: int) -> bool:
    """Put the keys of a batch of any kind into the map; False if full, see ``OffsetMap.put_batches``."""
    if header.last_offset < from_offset:
        return True
    _check_crc(buffer, header)
    if header.magic < 2:
        is_complete = _put_messages(buffer, header, keys, from_offset, count_max)
    else:
        records = codec.batch_records(buffer, header)
        is_complete = keys.put_records(records, header.count, header.base_offset, from_offset, count_max)
    if is_complete:
        keys.update_latest_offset(header.last_offset)
    return is_complete


def filter_batch(
    buffer: Buffer,
    header: BatchHeader,
    keys: OffsetMap,
    *,
    discard_records: bool,
    keep_empty: bool,
    drop_tombstones_of_legacy: bool,
    now_ms: int,
    delete_retention_ms: int,
    marker_of_empty_transaction: bool = False,
) -> bytes | None:
    """Return the retained batch; ``None`` if nothing is retained.

    All records of a control batch are retained unless ``discard_records``. The marker of an empty transaction
    gets a delete horizon, after which the caller may discard it. ``keep_empty`` retains the header of a batch
    without retained records; messages of magic 0 and 1 have no producer state to keep.
    """
    _check_crc(buffer, header)
    if header.magic < 2:
        return None if discard_records else _filter_messages(buffer, header, keys, drop_tombstones_of_legacy)
    if not discard_records:
        records = codec.batch_records(buffer, header)
        offset_map = None if header.is_control else keys
        filtered = codec.filter_records(
            records, header, offset_map, now_ms, delete_retention_ms, marker_of_empty_transaction
        )
        if filtered.count and filtered.records is None:
            return _copy(buffer, header)
        if filtered.count:
            compressed = compress(header.compression, filtered.records or b"")
            return build_batch(header.with_filtered(filtered), compressed)
    return build_batch(header.without_records(), b"") if keep_empty else None


def _check_crc(buffer: Buffer, header: BatchHeader) -> None:
    if not codec.has_valid_crc(buffer, header):
        raise BrokerError(
            ErrorCode.CORRUPT_MESSAGE,
            f"CRC of the batch at offset {header.base_offset} does not match its bytes",
        )


def _copy(buffer: Buffer, header: BatchHeader) -> bytes:
    return bytes(memoryview(buffer)[header.position : header.end_position])


def _put_messages(
    buffer: Buffer, header: BatchHeader, keys: OffsetMap, from_offset: int, count_max: int
) -> bool:
    messages = _read_messages(buffer, header)
    room = min(count_max, keys.slots)
    if keys.count and len(messages) > room - keys.count:
        return False
    for _, record in messages:
        if record.key is None or record.offset < from_offset:
            continue
        if keys.count >= room:
            return False
        keys.put(record.key, record.offset)
    return True


def _read_messages(buffer: Buffer, header: BatchHeader) -> list[Message]:
    return list(read_message(buffer, header, DECOMPRESSED_BYTES_MAX))


def _filter_messages(
    buffer: Buffer, header: BatchHeader, keys: OffsetMap, drop_tombstones: bool
) -> bytes | None:
    messages = _read_messages(buffer, header)
    retained = [message.record for message in messages if _is_retained(message.record, keys, drop_tombstones)]
    if not retained:
        return None
    # Old brokers could wrap messages of another magic than the wrapper's; encoding them again fixes that.
    if len(retained) == len(messages) and all(message.magic == header.magic for message in messages):
        return _copy(buffer, header)
    append_time = header.magic == 1 and header.attributes & APPEND_TIME_BIT
    return write_message_set(
        retained, header.magic, Compression(header.codec_id), header.max_timestamp if append_time else None
    )


def _is_retained(record: Record, keys: OffsetMap, drop_tombstones: bool) -> bool:
    if record.offset > keys.latest_offset:
        return True
    if record.key is None or (record.value is None and drop_tombstones):
        return False
    return record.offset >= keys.get(record.key)
