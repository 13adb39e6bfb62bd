"""Comparison of a log with its model: records, timestamp searches, leader epochs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from tests.faults.log_model.history import (
    History,
    Written,
    WrittenBatch,
    first_not_older,
    latest_by_key,
    records_of,
)
from tests.faults.storage.specimen import is_whole, whole_batches

from odradek.log.log import Log
from odradek.model.errors import BrokerError, ErrorCode
from odradek.records.codec import decode_batch, read_headers

READ_BYTES = 250


def compare(log: Log, model: History, *, thorough: bool) -> None:
    """Assert that log and model agree; ``thorough`` reads from every offset."""
    shown = model.shown()
    assert (log.log_start_offset, log.log_end_offset) == (model.start, model.end)
    assert log.high_watermark == model.high_watermark <= log.log_end_offset
    assert log.recovery_point <= log.log_end_offset
    batches = read_batches(log)
    assert records_of(batches, model.start, model.end) == shown
    if thorough:
        _check_every_offset(log, model, shown)
        _check_outside(log, model)
    _check_times(log, shown)
    _check_largest_time(log, batches)
    _check_epochs(log, model, shown)


def _check_every_offset(log: Log, model: History, shown: list[Written]) -> None:
    for offset in range(model.start, model.end):
        batches = list(batches_of(log.read(offset, READ_BYTES).data))
        if not batches:
            assert not [record for record in shown if record.offset >= offset]
            continue
        assert batches[0].next_offset > offset
        read = records_of(batches, offset, model.end)
        assert read == [record for record in shown if offset <= record.offset < batches[-1].next_offset]


def _check_outside(log: Log, model: History) -> None:
    assert not log.read(model.end, READ_BYTES).data
    for offset in (model.start - 1, model.end + 1):
        with pytest.raises(BrokerError) as error:
            log.read(offset, READ_BYTES)
        assert error.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def _check_times(log: Log, shown: list[Written]) -> None:
    times = {record.timestamp for record in shown}
    for timestamp in sorted(times | {time + 1 for time in times})[:: 1 + len(times) // 6]:
        batches_read = log.segments.find_offset_by_timestamp(timestamp, log.log_start_offset)
        expected = first_not_older(shown, timestamp)
        assert (batches_read and (batches_read.timestamp, batches_read.offset)) == expected, timestamp


def _check_largest_time(log: Log, batches: list[WrittenBatch]) -> None:
    """Check the largest timestamp as Kafka finds it: also before the log start offset in the first segment.

    There is none if compaction has left only the header of the batch with the largest timestamp.
    """
    batches_read = log.segments.find_max_timestamp()
    everything = records_of(batches, 0, log.log_end_offset)
    expected = first_not_older(everything, max((record.timestamp for record in everything), default=-1))
    is_whole_log = all(len(batch.records) == batch.count for batch in batches)
    if is_whole_log or batches_read is not None:
        assert (batches_read and (batches_read.timestamp, batches_read.offset)) == expected


def _check_epochs(log: Log, model: History, shown: list[Written]) -> None:
    ends: dict[int, int] = {}
    model.start_max = max(model.start_max, model.start)
    for record in shown:
        if record.offset < model.start_max:
            continue
        assert log.epochs.epoch_of(record.offset) == record.leader_epoch, record
        ends[record.leader_epoch] = record.offset + 1
    for epoch, next_offset in ends.items():
        batches_read = log.end_offset_for_epoch(epoch)
        assert batches_read.leader_epoch == epoch
        later = [record.offset for record in shown if record.leader_epoch > epoch]
        assert next_offset <= batches_read.end_offset <= min(later, default=model.end)


def as_in_one_of(
    histories: list[list[WrittenBatch]], shown: list[Written], start: int, end: int
) -> list[WrittenBatch] | None:
    """Return the batches if they are a prefix of one history; None if they are not.

    There are several histories if a truncation did not complete. A power failure after that may restore a
    segment as it was before the truncation, and keep the next as it was written after it.
    """
    for batches in histories:
        if records_of(batches, start, end) == shown and _ends_at(batches, start, end):
            return batches
    known = {batch.records: batch for batches in histories for batch in batches}
    mixed = sorted(known.values(), key=lambda batch: batch.next_offset)
    taken = [batch for batch in mixed if set(batch.records) <= set(shown)]
    return taken if len(histories) > 1 and records_of(taken, start, end) == shown else None


def as_sifted(
    histories: list[list[WrittenBatch]],
    shown: list[Written],
    start: int,
    kept_below: int,
    *,
    compacting: bool,
) -> bool:
    """Return whether these may be the batches of a compacted log.

    All records are known. Below ``kept_below`` none is missing except, during a cleaning, tombstones and
    records with a newer one of the same key. Above it a crash may have left a gap.
    """
    return any(_is_sifted(batches, shown, start, kept_below, compacting) for batches in histories)


def _is_sifted(
    batches: list[WrittenBatch], shown: list[Written], start: int, kept_below: int, compacting: bool
) -> bool:
    everything = [record for batch in batches for record in batch.records if record.offset >= start]
    expected = {record for record in everything if record.offset < kept_below}
    if compacting:
        expected &= {record for record in latest_by_key(everything).values() if record.value is not None}
    return expected <= set(shown) <= set(everything)


def _ends_at(batches: Iterable[WrittenBatch], start: int, end: int) -> bool:
    """Return whether a log may end there: after a batch, or at its start."""
    return end == start or any(batch.next_offset == end for batch in batches)


def batches_of(data: Any) -> Iterable[WrittenBatch]:
    """Yield the complete batches of read data, as a client does."""
    for raw in whole_batches(data):
        assert is_whole(raw), "a batch with a wrong checksum"
        [header] = read_headers(raw)
        records = tuple(
            Written(record.offset, record.timestamp, record.key, record.value, header.leader_epoch)
            for record in decode_batch(raw, header)
        )
        count = header.last_offset_delta + 1
        yield WrittenBatch(records, header.next_offset, header.producer_id, header.base_sequence, count)


def read_batches(log: Log) -> list[WrittenBatch]:
    """Read all batches, page by page, including those before the log start offset in the first segment."""
    batches_read: list[WrittenBatch] = []
    offset, end = log.segments[0].base_offset, log.log_end_offset
    while offset < end:
        page = list(batches_of(log.segments.read(offset, READ_BYTES, end, end, True).data))
        if not page:
            break
        assert page[0].next_offset > offset, "a read that does not go on"
        batches_read += page
        offset = page[-1].next_offset
    return batches_read
