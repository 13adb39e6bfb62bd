"""What the cleaner does with batches that are not plain: compressed, transactional, control, magic 0 and 1.

Invariant: offsets, keys, values, headers and timestamps of what stays are unchanged, and so are the magic and
the codec. Which records go is decided as for plain batches, see ``_sifting_py``; what the log around a batch
says about it (aborted, its producer's last, the end of a transaction without records) comes from the caller.
A batch that does not match its checksum is refused with CORRUPT_MESSAGE, and nothing is made of it.
"""

from __future__ import annotations

from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.protocol_enums import Compression
from odradek.ports.files import Buffer
from odradek.records import codec
from odradek.records.batch import seal
from odradek.records.codec import OffsetMap
from odradek.records.compression import DECOMPRESSED_BYTES_MAX, compress
from odradek.records.layout import APPEND_TIME_BIT, BatchHeader, Record
from odradek.records.message_set import Message, read_message, write_message_set


def put_batch(buffer: Buffer, header: BatchHeader, keys: OffsetMap, from_offset: int, count_max: int) -> bool:
    """Note the keys of one batch of any kind; False if there was no room, as ``OffsetMap.put_batches`` has
    it.
    """
    if header.last_offset < from_offset:
        return True
    _check_whole(buffer, header)
    if header.magic < 2:
        taken = _learn_messages(buffer, header, keys, from_offset, count_max)
    else:
        records = codec.records_of(buffer, header)
        taken = keys.put_records(records, header.count, header.base_offset, from_offset, count_max)
    if taken:
        keys.update_latest_offset(header.last_offset)
    return taken


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
    """What stays of one batch; ``None`` if nothing does.

    Records of a control batch all stay unless ``discard_records``. The marker of a transaction without
    records gets a delete horizon, after which the caller may discard it. ``keep_empty`` keeps the header of a
    batch that loses all its records; messages of magic 0 and 1 have no producer that could need it.
    """
    _check_whole(buffer, header)
    if header.magic < 2:
        return None if discard_records else _sift_messages(buffer, header, keys, drop_tombstones_of_legacy)
    if not discard_records:
        records = codec.records_of(buffer, header)
        judged_by = None if header.is_control else keys
        sifted = codec.filter_records(
            records, header, judged_by, now_ms, delete_retention_ms, marker_of_empty_transaction
        )
        if sifted.count and sifted.records is None:
            return _copy(buffer, header)
        if sifted.count:
            return seal(header.sifted(sifted), compress(header.compression, sifted.records or b""))
    return seal(header.emptied(), b"") if keep_empty else None


def _check_whole(buffer: Buffer, header: BatchHeader) -> None:
    if not codec.has_valid_crc(buffer, header):
        raise BrokerError(
            ErrorCode.CORRUPT_MESSAGE, f"the checksum of a batch at {header.base_offset} is not its bytes'"
        )


def _copy(buffer: Buffer, header: BatchHeader) -> bytes:
    return bytes(memoryview(buffer)[header.position : header.end_position])


def _learn_messages(
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


def _sift_messages(
    buffer: Buffer, header: BatchHeader, keys: OffsetMap, drop_tombstones: bool
) -> bytes | None:
    messages = _read_messages(buffer, header)
    kept = [message.record for message in messages if _stays(message.record, keys, drop_tombstones)]
    if not kept:
        return None
    # Old brokers could wrap messages of another magic than the wrapper's; writing them anew mends that.
    if len(kept) == len(messages) and all(message.magic == header.magic for message in messages):
        return _copy(buffer, header)
    append_time = header.magic == 1 and header.attributes & APPEND_TIME_BIT
    return write_message_set(
        kept, header.magic, Compression(header.codec_id), header.max_timestamp if append_time else None
    )


def _stays(record: Record, keys: OffsetMap, drop_tombstones: bool) -> bool:
    if record.offset > keys.latest_offset:
        return True
    if record.key is None or (record.value is None and drop_tombstones):
        return False
    return record.offset >= keys.get(record.key)
