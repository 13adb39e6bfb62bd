"""What stays of batches when a log is compacted, in plain Python: what the compiled part must do.

Invariant: every function here and its namesake in ``_codec`` give equal results, or refuse with equal error
codes, for all inputs. Only plain batches are looked at, see ``_key_offsets_py``. The checksum of each is
right, also if it is only copied: what is rewritten gets a new one, and would hide a flipped bit for good.
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
    Parts,
    area_of,
    check_whole,
    header_at,
    is_plain,
    read_parts,
)
from odradek.records.pure.record_batch import crc32c, put_varint, wrapped_int64

__all__ = ["OffsetMap", "header_at", "filter_batches", "filter_records"]


class _Pile:
    """The records of a batch that stay."""

    __slots__ = ("kept", "keyless", "timestamps", "tombstones")

    def __init__(self) -> None:
        self.kept: list[Parts] = []
        self.timestamps: list[int] = []
        self.tombstones = 0
        self.keyless = 0


def _judge(records: Buffer, header: BatchHeader, keys: OffsetMap | None, now_ms: int) -> _Pile:
    """Pick the records that stay."""
    pile = _Pile()
    horizon = header.delete_horizon_ms
    drops_tombstones = horizon is not None and horizon <= now_ms
    for row in read_parts(records, header.count):
        offset = wrapped_int64(header.base_offset + row.offset_delta)
        if keys is not None and offset <= keys.latest_offset:
            if row.key is None:
                pile.keyless += 1
                continue
            if (drops_tombstones and not row.has_value) or offset < keys.get(row.key):
                continue
        pile.kept.append(row)
        fixed = header.attributes & APPEND_TIME_BIT
        created = wrapped_int64(header.base_timestamp + row.timestamp_delta)
        pile.timestamps.append(header.max_timestamp if fixed else created)
        pile.tombstones += not row.has_value
    return pile


def _conclude(
    records: Buffer, header: BatchHeader, pile: _Pile, new_horizon_ms: int, wants_horizon: bool
) -> FilteredRecords:
    """Say what becomes of the batch.

    Tombstones and markers that stay get a delete horizon, if there is none yet, in the base timestamp's
    place. Otherwise a batch that changes begins with the time of its first record, as if made anew.
    """
    has_horizon = header.delete_horizon_ms is not None
    sets_horizon = bool(pile.kept) and bool(pile.tombstones or wants_horizon) and not has_horizon
    base_timestamp, max_timestamp = header.base_timestamp, header.max_timestamp
    if sets_horizon:
        base_timestamp = new_horizon_ms
    elif pile.kept and not has_horizon:
        base_timestamp = pile.timestamps[0]
    if not header.attributes & APPEND_TIME_BIT:
        max_timestamp = max([-1, *pile.timestamps])
    made = None
    if sets_horizon or len(pile.kept) != header.count:
        verbatim = not header.attributes & APPEND_TIME_BIT and base_timestamp == header.base_timestamp
        made = _write(memoryview(records), pile, None if verbatim else base_timestamp)
    return FilteredRecords(made, len(pile.kept), base_timestamp, max_timestamp, sets_horizon)


def _write(records: memoryview, pile: _Pile, base_timestamp: int | None) -> bytes:
    """Encode what stays against a base timestamp; ``None`` leaves every byte of a record as it is."""
    out = bytearray()
    for row, timestamp in zip(pile.kept, pile.timestamps, strict=True):
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
    """Pick what stays of one batch's decompressed records; without ``keys`` all of them do.

    A record stays if its offset is above ``latest_offset``, or if it has a key, no newer offset of that key
    is known, and it is no tombstone whose batch has a delete horizon that has come.
    """
    pile = _judge(records, header, keys, now_ms)
    return _conclude(records, header, pile, saturated(now_ms + delete_retention_ms), wants_horizon)


def filter_batches(
    buffer: Buffer,
    position: int,
    keys: OffsetMap,
    kept_last_offsets: Buffer,
    now_ms: int,
    delete_retention_ms: int,
    out: bytearray,
) -> FilterResult:
    """Append to ``out`` what stays of the plain batches from ``position`` on, up to a special one or the end.

    Offsets never change: a batch that loses records keeps its first and last offset. One that loses all
    vanishes, unless its last offset is among the sorted int64 ``kept_last_offsets`` and it has a producer,
    whose last sequence it must tell: then its header stays. A batch that nothing happens to is copied. If a
    batch is corrupt, CORRUPT_MESSAGE, and ``out`` is as it was.
    """
    view, made = memoryview(buffer), bytearray()
    kept_last = memoryview(kept_last_offsets).cast("B").cast("q")
    new_horizon_ms = saturated(now_ms + delete_retention_ms)
    tally, start = _Tally(), position
    while (header := header_at(view, position)) is not None and is_plain(header):
        check_whole(view, header)
        records = area_of(view, header)
        pile = _judge(records, header, keys, now_ms)
        sifted = _conclude(records, header, pile, new_horizon_ms, False)
        tally.read(header, pile)
        keeps_empty = header.has_producer_id and _holds(kept_last, wrapped_int64(header.last_offset))
        batch = _remade(view, header, sifted, keeps_empty)
        if batch is not None:
            tally.kept(batch, len(out) + len(made), pile.tombstones)
            made += batch
        position = header.end_position
    out += made
    return tally.sifted(position, position - start, len(made))


def _holds(sorted_offsets: memoryview, offset: int) -> bool:
    index = bisect_left(sorted_offsets, offset)
    return index < len(sorted_offsets) and sorted_offsets[index] == offset


def _remade(
    view: memoryview, header: BatchHeader, sifted: FilteredRecords, keeps_empty: bool
) -> Buffer | None:
    if sifted.count:
        if sifted.records is None:
            return view[header.position : header.end_position]
        return _sealed(header.sifted(sifted), sifted.records)
    return _sealed(header.emptied(), b"") if keeps_empty else None


def _sealed(header: BatchHeader, records: bytes) -> bytes:
    fields = header._replace(size_bytes=BATCH_OVERHEAD + len(records) - LOG_OVERHEAD, crc=0)[1:]
    made = bytearray(HEADER.pack(*fields)) + records
    made[CRC_POSITION:CRC_START] = crc32c(made[CRC_START:]).to_bytes(4, "big")
    return bytes(made)


class _Tally:
    """Counts of what was read and kept."""

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

    def read(self, header: BatchHeader, pile: _Pile) -> None:
        self.batches_read += 1
        self.records_read += header.count
        self.keyless += pile.keyless

    def kept(self, batch: Buffer, position: int, tombstones: int) -> None:
        header = header_at(batch, 0)
        assert header is not None
        self.batches_kept += 1
        self.records_kept += header.count
        self.tombstones += tombstones
        last_offset = wrapped_int64(header.last_offset)
        newest = self.index[2:]
        if header.max_timestamp > newest[0]:
            newest = (header.max_timestamp, last_offset)
        self.index = (last_offset, position, *newest)

    def sifted(self, position: int, bytes_read: int, bytes_kept: int) -> FilterResult:
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
