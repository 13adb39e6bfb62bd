"""Compaction of plain batches: drops records whose key has a later offset.

Invariant: every function here and its namesake in ``compiled.compaction`` return equal results, or raise
equal error codes, for all inputs. See ``offset_map`` for plain batches. The CRC of every batch is checked,
because a rewritten batch gets a new one that would hide a flipped bit.
"""

from __future__ import annotations

from bisect import bisect_left

from odradek.ports.files import Buffer
from odradek.records.layout import (
    APPEND_TIME_BIT,
    BATCH_OVERHEAD,
    CRC_POSITION,
    CRC_START,
    HEADER,
    LOG_OVERHEAD,
    BatchHeader,
    FilteredRecords,
    FilterResult,
    saturated,
)
from odradek.records.pure.offset_map import (
    OffsetMap,
    RecordFields,
    check_crc,
    header_at,
    is_plain,
    plain_records,
    read_fields,
)
from odradek.records.pure.record_batch import crc32c, put_varint, wrapped_int64

__all__ = ["OffsetMap", "header_at", "filter_batches", "filter_records"]


class _Retained:
    """Retained records of a batch."""

    __slots__ = ("keyless", "records", "timestamps", "tombstones")

    def __init__(self) -> None:
        self.records: list[RecordFields] = []
        self.timestamps: list[int] = []
        self.tombstones = 0
        self.keyless = 0


def _select(records: Buffer, header: BatchHeader, keys: OffsetMap | None, now_ms: int) -> _Retained:
    """Select the retained records."""
    retained = _Retained()
    horizon = header.delete_horizon_ms
    drops_tombstones = horizon is not None and horizon <= now_ms
    for row in read_fields(records, header.count):
        offset = wrapped_int64(header.base_offset + row.offset_delta)
        if keys is not None and offset <= keys.latest_offset:
            if row.key is None:
                retained.keyless += 1
                continue
            if (drops_tombstones and not row.has_value) or offset < keys.get(row.key):
                continue
        retained.records.append(row)
        fixed = header.attributes & APPEND_TIME_BIT
        created = wrapped_int64(header.base_timestamp + row.timestamp_delta)
        retained.timestamps.append(header.max_timestamp if fixed else created)
        retained.tombstones += not row.has_value
    return retained


def _filtered(
    records: Buffer, header: BatchHeader, retained: _Retained, new_horizon_ms: int, wants_horizon: bool
) -> FilteredRecords:
    """Return the retained records with their header fields.

    Retained tombstones and markers get a delete horizon, if there is none yet, in place of the base
    timestamp. Otherwise the base timestamp of a changed batch is that of its first record, as in a new batch.
    """
    has_horizon = header.delete_horizon_ms is not None
    sets_horizon = bool(retained.records) and bool(retained.tombstones or wants_horizon) and not has_horizon
    base_timestamp, max_timestamp = header.base_timestamp, header.max_timestamp
    if sets_horizon:
        base_timestamp = new_horizon_ms
    elif retained.records and not has_horizon:
        base_timestamp = retained.timestamps[0]
    if not header.attributes & APPEND_TIME_BIT:
        max_timestamp = max([-1, *retained.timestamps])
    encoded = None
    if sets_horizon or len(retained.records) != header.count:
        verbatim = not header.attributes & APPEND_TIME_BIT and base_timestamp == header.base_timestamp
        encoded = _encode(memoryview(records), retained, None if verbatim else base_timestamp)
    return FilteredRecords(encoded, len(retained.records), base_timestamp, max_timestamp, sets_horizon)


def _encode(records: memoryview, retained: _Retained, base_timestamp: int | None) -> bytes:
    """Encode the retained records relative to a base timestamp; ``None`` copies them unchanged."""
    out = bytearray()
    for row, timestamp in zip(retained.records, retained.timestamps, strict=True):
        if base_timestamp is None:
            out += records[row.start : row.end]
            continue
        head = bytearray((row.attributes,))
        put_varint(head, wrapped_int64(timestamp - base_timestamp))
        put_varint(head, row.offset_delta)
        put_varint(out, len(head) + row.end - row.body)
        out += head
        out += records[row.body : row.end]
    return bytes(out)


def filter_records(
    records: Buffer,
    header: BatchHeader,
    keys: OffsetMap | None,
    now_ms: int,
    delete_retention_ms: int,
    wants_horizon: bool,
) -> FilteredRecords:
    """Filter the decompressed records of one batch; without ``keys`` all of them are retained.

    A record is retained if its offset is above ``latest_offset``, or if it has a key without a later offset
    and is no tombstone of a batch whose delete horizon has passed.
    """
    retained = _select(records, header, keys, now_ms)
    return _filtered(records, header, retained, saturated(now_ms + delete_retention_ms), wants_horizon)


def filter_batches(
    buffer: Buffer,
    position: int,
    keys: OffsetMap,
    kept_last_offsets: Buffer,
    now_ms: int,
    delete_retention_ms: int,
    out: bytearray,
) -> FilterResult:
    """Append the retained part of plain batches to ``out``, from ``position`` up to one that is not plain.

    Offsets never change: a batch that loses records keeps its offset range. A batch without retained records
    is dropped, unless its last offset is among the sorted int64 ``kept_last_offsets`` and it has a producer,
    whose last sequence it records: then its header is retained. Unchanged batches are copied. A corrupt batch
    raises CORRUPT_MESSAGE and leaves ``out`` unchanged.
    """
    view, output = memoryview(buffer), bytearray()
    kept_last = memoryview(kept_last_offsets).cast("B").cast("q")
    new_horizon_ms = saturated(now_ms + delete_retention_ms)
    counts, start = _Counts(), position
    while (header := header_at(view, position)) is not None and is_plain(header):
        check_crc(view, header)
        records = plain_records(view, header)
        retained = _select(records, header, keys, now_ms)
        filtered = _filtered(records, header, retained, new_horizon_ms, False)
        counts.read(header, retained)
        keeps_empty = header.has_producer_id and _contains(kept_last, wrapped_int64(header.last_offset))
        batch = _new_batch(view, header, filtered, keeps_empty)
        if batch is not None:
            counts.kept(batch, len(out) + len(output), retained.tombstones)
            output += batch
        position = header.end_position
    out += output
    return counts.result(position, position - start, len(output))


def _contains(sorted_offsets: memoryview, offset: int) -> bool:
    index = bisect_left(sorted_offsets, offset)
    return index < len(sorted_offsets) and sorted_offsets[index] == offset


def _new_batch(
    view: memoryview, header: BatchHeader, filtered: FilteredRecords, keeps_empty: bool
) -> Buffer | None:
    if filtered.count:
        if filtered.records is None:
            return view[header.position : header.end_position]
        return _build_batch(header.with_filtered(filtered), filtered.records)
    return _build_batch(header.without_records(), b"") if keeps_empty else None


def _build_batch(header: BatchHeader, records: bytes) -> bytes:
    fields = header._replace(size_bytes=BATCH_OVERHEAD + len(records) - LOG_OVERHEAD, crc=0)[1:]
    batch = bytearray(HEADER.pack(*fields)) + records
    batch[CRC_POSITION:CRC_START] = crc32c(batch[CRC_START:]).to_bytes(4, "big")
    return bytes(batch)


class _Counts:
    """Counts of batches and records read and retained."""

    __slots__ = (
        "batches_kept",
        "batches_read",
        "index",
        "keyless",
        "records_kept",
        "records_read",
        "tombstones",
    )

    def __init__(self) -> None:
        self.batches_read = self.records_read = self.keyless = 0
        self.batches_kept = self.records_kept = self.tombstones = 0
        self.index = (-1, -1, -1, -1)

    def read(self, header: BatchHeader, retained: _Retained) -> None:
        self.batches_read += 1
        self.records_read += header.count
        self.keyless += retained.keyless

    def kept(self, batch: Buffer, position: int, tombstones: int) -> None:
        header = header_at(batch, 0)
        assert header is not None
        self.batches_kept += 1
        self.records_kept += header.count
        self.tombstones += tombstones
        last_offset = wrapped_int64(header.last_offset)
        max_timestamp = self.index[2:]
        if header.max_timestamp > max_timestamp[0]:
            max_timestamp = (header.max_timestamp, last_offset)
        self.index = (last_offset, position, *max_timestamp)

    def result(self, position: int, bytes_read: int, bytes_kept: int) -> FilterResult:
        return FilterResult(
            position,
            bytes_read,
            self.batches_read,
            self.records_read,
            bytes_kept,
            self.batches_kept,
            self.records_kept,
            self.tombstones,
            self.keyless,
            *self.index,
        )
