"""Active segments: indexes, tail cache, limits, truncation, failed writes."""

import errno
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.log.segments.active_segment import INDEX_STEP_BYTES, TAIL_BATCHES_MAX, ActiveSegment
from odradek.log.segments.log_segment import LogSegment, TimestampOffset
from odradek.log.segments.segment_format import OFFSETS, RELATIVE_OFFSET_MAX, TIMES
from odradek.log.segments.transaction_index import AbortedTransaction, decode_aborted
from odradek.records.codec import read_headers

Batch = Callable[..., bytearray]
NEVER = 2**62


def _append(segment: ActiveSegment, *batches: bytearray) -> None:
    for data in batches:
        segment.append(data, read_headers(data))


def _new(harness: Any, base_offset: int = 0, interval_bytes: int = 100) -> ActiveSegment:
    segment = ActiveSegment.create(harness.context(interval_bytes), base_offset)
    segment.set_limits(1 << 30, NEVER, harness.now_ms)
    return segment


def test_new_segment_has_three_empty_files(harness: Any) -> None:
    segment = _new(harness, 42)
    assert harness.files.list_files(segment.context.directory) == {
        "00000000000000000042.index": 0,
        "00000000000000000042.log": 0,
        "00000000000000000042.timeindex": 0,
    }


def test_leftovers_of_an_earlier_segment_are_overwritten(harness: Any, batch: Batch) -> None:
    first = _new(harness)
    _append(first, *(batch(1, base_offset=offset) for offset in range(9)))
    first.seal()
    again = _new(harness)
    assert harness.files.list_files(again.context.directory) == {
        "00000000000000000000.index": 0,
        "00000000000000000000.log": 0,
        "00000000000000000000.timeindex": 0,
    }


@given(counts=st.lists(st.integers(1, 5), min_size=1, max_size=40), interval=st.sampled_from([0, 90, 400]))
def test_indexes_of_a_sealed_segment_equal_those_of_a_scan(
    new_harness: Callable[[], Any], batch: Batch, counts: list[int], interval: int
) -> None:
    harness = new_harness()
    segment = _new(harness, 7, interval)
    offset = 7
    for number, count in enumerate(counts):
        _append(segment, batch(count, timestamp=1000 + (number * 7) % 11, base_offset=offset))
        offset += count
    sealed = segment.seal()
    rebuilt = sealed.scan().indexes
    rebuilt.add_max_timestamp()
    assert harness.files.read_whole(sealed.path(".index")) == rebuilt.offsets
    assert harness.files.read_whole(sealed.path(".timeindex")) == rebuilt.times
    assert sealed.max_timestamp_and_offset()[:2] == (rebuilt.max_timestamp, rebuilt.offset_of_max_timestamp)


def test_indexes_are_written_in_steps(harness: Any, batch: Batch) -> None:
    segment = _new(harness, interval_bytes=0)
    for offset in range(TAIL_BATCHES_MAX - 1):
        _append(segment, batch(1, base_offset=offset))
    assert harness.files.size_of(segment.path(".index")) == 0
    _append(segment, batch(1, base_offset=TAIL_BATCHES_MAX - 1))
    assert harness.files.size_of(segment.path(".index")) == (TAIL_BATCHES_MAX - 1) * OFFSETS.entry_bytes
    assert harness.files.size_of(segment.path(".index")) >= INDEX_STEP_BYTES / 2


def test_failed_index_write_is_retried(harness: Any, batch: Batch) -> None:
    segment = _new(harness, interval_bytes=0)
    harness.files.fail_next_write(errno.ENOSPC, written=5, name_end=".index")
    for offset in range(TAIL_BATCHES_MAX):
        _append(segment, batch(1, base_offset=offset))
    assert harness.files.size_of(segment.path(".index")) == 5
    sealed = segment.seal()
    assert harness.files.read_whole(sealed.path(".index")) == sealed.scan().indexes.offsets


def test_reopened_segment_continues_its_indexes(harness: Any, batch: Batch) -> None:
    written_once, reopened = _new(harness, 0), _new(harness, 1000)
    for offset in range(30):
        _append(written_once, batch(1, timestamp=1000 + offset, base_offset=offset))
        _append(reopened, batch(1, timestamp=1000 + offset, base_offset=1000 + offset))
        if offset % 7 == 3:
            sealed = LogSegment(reopened.context, 1000, reopened.size)
            reopened.seal()
            reopened = ActiveSegment.activate(sealed, 1001 + offset)
            reopened.set_limits(1 << 30, NEVER, harness.now_ms)
    written_once.seal(), reopened.seal()
    assert harness.files.read_whole(reopened.path(".index")) == harness.files.read_whole(
        written_once.path(".index")
    )
    assert reopened.max_timestamp_and_offset() == TimestampOffset(1029, 1029)


def test_tail_caches_the_newest_batches(harness: Any, batch: Batch) -> None:
    segment = _new(harness)
    for number in range(TAIL_BATCHES_MAX * 2):
        _append(segment, batch(2, base_offset=number * 2))
        assert len(segment.tail_offsets) == len(segment.tail_positions) < TAIL_BATCHES_MAX
        assert segment.tail_offsets[-1] == number * 2 + 1
    first = segment.locate(segment.tail_floor)
    assert first is not None
    assert (first.base_offset, first.position) == (segment.tail_floor, segment.tail_positions[0])


def test_room_is_limited_by_size_indexes_and_relative_offsets(harness: Any, batch: Batch) -> None:
    data = batch(1)
    segment = _new(harness)
    segment.set_limits(len(data) * 2, NEVER, 0)
    assert segment.has_room(len(data) * 2, 0)
    assert not segment.has_room(len(data) * 2 + 1, 0)
    _append(segment, data)
    assert segment.has_room(len(data), 1)
    assert not segment.has_room(len(data) + 1, 1)
    segment.set_limits(1 << 30, NEVER, 0)
    assert segment.has_room(1, RELATIVE_OFFSET_MAX)
    assert not segment.has_room(1, RELATIVE_OFFSET_MAX + 1)
    segment.set_limits(1 << 40, NEVER, 0)
    assert not segment.has_room(2**31, 1)

    full = ActiveSegment.create(harness.context(0, 24), 10_000)
    full.set_limits(1 << 30, NEVER, 0)
    for offset in range(10_000, 10_002):
        assert full.has_room(1, offset)
        _append(full, batch(1, base_offset=offset))
    assert not full.has_room(1, 10_002)


def test_age_counts_from_the_timestamp_of_the_first_batch(harness: Any, batch: Batch) -> None:
    segment = _new(harness)
    segment.set_limits(1 << 30, 500, 10_000)
    assert not segment.is_too_old(1 << 50, 10_000)
    _append(segment, batch(1, timestamp=2000))
    assert not segment.is_too_old(2500, 1 << 50)
    assert segment.is_too_old(2501, 0)
    _append(segment, batch(1, timestamp=9000, base_offset=1))
    assert segment.is_too_old(2501, 0)
    sealed = segment.seal()
    again = ActiveSegment.activate(sealed, 2)
    again.set_limits(1 << 30, 500, 10_000)
    assert not again.is_too_old(2500, 0)
    assert again.is_too_old(2501, 0)


def test_age_counts_by_the_clock_without_timestamps(harness: Any, batch: Batch) -> None:
    segment = _new(harness)
    segment.set_limits(1 << 30, 500, 10_000)
    _append(segment, batch(1, timestamp=-1))
    assert not segment.is_too_old(-1, 10_500)
    assert segment.is_too_old(-1, 10_501)


@pytest.mark.parametrize("written", [0, 1, 40])
def test_failed_append_changes_nothing(harness: Any, batch: Batch, written: int) -> None:
    segment = _new(harness)
    _append(segment, batch(2))
    before = harness.files.read_whole(segment.path(".log"))
    harness.files.fail_next_write(errno.ENOSPC, written=written, name_end=".log")
    with pytest.raises(OSError, match="No space"):
        _append(segment, batch(2, base_offset=2))
    assert harness.files.read_whole(segment.path(".log")) == before
    assert segment.size == len(before)
    assert list(segment.tail_offsets) == [1]
    _append(segment, batch(2, base_offset=2))
    assert segment.next_offset() == 4


@given(
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=40),
    truncations=st.lists(st.integers(0, 100), min_size=1, max_size=3),
    interval=st.sampled_from([0, 100, 500]),
)
def test_truncated_segment_equals_a_shorter_one(
    new_harness: Callable[[], Any], batch: Batch, counts: list[int], truncations: list[int], interval: int
) -> None:
    harness = new_harness()
    segment, kept = _new(harness, 0, interval), _new(harness, 1_000_000, interval)
    written: list[tuple[int, int, int]] = []
    offset = 0
    for number, count in enumerate(counts):
        written.append((offset, count, 1000 + (number * 5) % 9))
        offset += count
    for start, count, at in written:
        _append(segment, batch(count, timestamp=at, base_offset=start))
    for end_offset in truncations:
        segment.truncate(end_offset)
        written = [batch for batch in written if batch[0] + batch[1] <= end_offset]
    for start, count, at in written:
        _append(kept, batch(count, timestamp=at, base_offset=1_000_000 + start))
    assert segment.size == kept.size == harness.files.size_of(segment.path(".log"))
    assert segment.offset_index() == kept.offset_index()
    assert segment.max_timestamp_and_offset().timestamp == kept.max_timestamp_and_offset().timestamp
    assert segment.max_timestamp_and_offset().offset == kept.max_timestamp_and_offset().offset - 1_000_000
    assert bytes(segment.offset_index()).startswith(harness.files.read_whole(segment.path(".index")))
    end = max((start + count for start, count, _ in written), default=0)
    _append(segment, batch(1, timestamp=5000, base_offset=end))
    for probe in range(segment.tail_floor, end + 1):
        located = segment.locate(probe)
        assert located is not None
        assert located.position in segment.tail_positions
    sealed = segment.seal()
    assert sealed.next_offset() == end + 1
    assert TIMES.last(harness.files.read_whole(sealed.path(".timeindex"))) == (5000, end)


@pytest.mark.parametrize("end_offset", [0, 3, 9])
def test_index_files_are_truncated_with_their_segment(harness: Any, batch: Batch, end_offset: int) -> None:
    segment = _new(harness, interval_bytes=0)
    for offset in range(10):
        _append(segment, batch(1, timestamp=1000 + offset, base_offset=offset))
        segment.add_aborted(AbortedTransaction(7, offset, offset, offset))
    segment.write_indexes()
    segment.truncate(end_offset)
    assert harness.files.read_whole(segment.path(".index")) == segment.offset_index()
    assert harness.files.read_whole(segment.path(".timeindex")) == segment.time_index()
    if end_offset:
        aborted = decode_aborted(harness.files.read_whole(segment.path(".txnindex")), "path")
        assert (
            aborted
            == segment.aborted()
            == [AbortedTransaction(7, offset, offset, offset) for offset in range(end_offset)]
        )
    else:
        assert not harness.files.exists(segment.path(".txnindex"))


def test_appends_after_a_truncation_are_indexed(harness: Any, batch: Batch) -> None:
    segment = _new(harness, interval_bytes=0)
    for offset in range(10):
        _append(segment, batch(1, timestamp=1000 + offset, base_offset=offset))
    segment.write_indexes()
    segment.truncate(4)
    for offset in range(4, 8):
        _append(segment, batch(2, timestamp=3000 + offset, base_offset=2 * offset - 4))
    sealed = segment.seal()
    rebuilt = sealed.scan().indexes
    rebuilt.add_max_timestamp()
    assert harness.files.read_whole(sealed.path(".index")) == rebuilt.offsets
    assert harness.files.read_whole(sealed.path(".timeindex")) == rebuilt.times


def test_segment_truncated_to_empty_has_no_age(harness: Any, batch: Batch) -> None:
    segment = _new(harness)
    segment.set_limits(1 << 30, 100, harness.now_ms)
    _append(segment, batch(1, timestamp=1000))
    assert segment.is_too_old(1101, harness.now_ms)
    segment.truncate(0)
    assert not segment.is_too_old(1101, harness.now_ms)


def test_rebuilt_index_files_equal_the_originals(harness: Any, batch: Batch) -> None:
    segment = _new(harness)
    _append(segment, *(batch(1, base_offset=offset, timestamp=1000 + offset) for offset in range(9)))
    segment.write_indexes()
    paths = [segment.path(".index"), segment.path(".timeindex")]
    before = [harness.files.read_whole(path) for path in paths]
    assert all(before)
    for path, content in zip(paths, before, strict=True):
        harness.files.write_whole(path, bytes(2 * len(content)))
    segment.rebuild_indexes()
    assert [harness.files.read_whole(path) for path in paths] == before
