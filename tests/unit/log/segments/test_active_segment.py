"""A segment that grows: indexes, tail, bounds, cuts, failed writes."""

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


def _new(bench: Any, base_offset: int = 0, interval_bytes: int = 100) -> ActiveSegment:
    segment = ActiveSegment.create(bench.place(interval_bytes), base_offset)
    segment.set_bounds(1 << 30, NEVER, bench.now_ms)
    return segment


def test_a_new_segment_has_its_three_files_and_they_are_empty(bench: Any) -> None:
    segment = _new(bench, 42)
    assert bench.files.list_files(segment.context.directory) == {
        "00000000000000000042.index": 0,
        "00000000000000000042.log": 0,
        "00000000000000000042.timeindex": 0,
    }


def test_what_is_left_of_an_earlier_segment_is_overwritten(bench: Any, batch: Batch) -> None:
    first = _new(bench)
    _append(first, *(batch(1, base_offset=offset) for offset in range(9)))
    first.seal()
    again = _new(bench)
    assert bench.files.list_files(again.context.directory) == {
        "00000000000000000000.index": 0,
        "00000000000000000000.log": 0,
        "00000000000000000000.timeindex": 0,
    }


@given(counts=st.lists(st.integers(1, 5), min_size=1, max_size=40), interval=st.sampled_from([0, 90, 400]))
def test_indexes_of_a_sealed_segment_are_those_that_a_scan_builds(
    new_bench: Callable[[], Any], batch: Batch, counts: list[int], interval: int
) -> None:
    bench = new_bench()
    segment = _new(bench, 7, interval)
    offset = 7
    for number, count in enumerate(counts):
        _append(segment, batch(count, timestamp=1000 + (number * 7) % 11, base_offset=offset))
        offset += count
    sealed = segment.seal()
    rebuilt = sealed.scan().indexes
    rebuilt.add_largest_timestamp()
    assert bench.files.read_whole(sealed.path(".index")) == rebuilt.offsets
    assert bench.files.read_whole(sealed.path(".timeindex")) == rebuilt.times
    assert sealed.largest()[:2] == (rebuilt.max_timestamp, rebuilt.offset_of_max_timestamp)


def test_indexes_come_to_the_files_in_steps(bench: Any, batch: Batch) -> None:
    segment = _new(bench, interval_bytes=0)
    for offset in range(TAIL_BATCHES_MAX - 1):
        _append(segment, batch(1, base_offset=offset))
    assert bench.files.size_of(segment.path(".index")) == 0
    _append(segment, batch(1, base_offset=TAIL_BATCHES_MAX - 1))
    assert bench.files.size_of(segment.path(".index")) == (TAIL_BATCHES_MAX - 1) * OFFSETS.entry_bytes
    assert bench.files.size_of(segment.path(".index")) >= INDEX_STEP_BYTES / 2


def test_an_index_that_cannot_be_written_is_written_later(bench: Any, batch: Batch) -> None:
    segment = _new(bench, interval_bytes=0)
    bench.files.fail_next_write(errno.ENOSPC, written=5, name_end=".index")
    for offset in range(TAIL_BATCHES_MAX):
        _append(segment, batch(1, base_offset=offset))
    assert bench.files.size_of(segment.path(".index")) == 5
    sealed = segment.seal()
    assert bench.files.read_whole(sealed.path(".index")) == sealed.scan().indexes.offsets


def test_a_segment_goes_on_where_it_was_left(bench: Any, batch: Batch) -> None:
    one, two = _new(bench, 0), _new(bench, 1000)
    for offset in range(30):
        _append(one, batch(1, timestamp=1000 + offset, base_offset=offset))
        _append(two, batch(1, timestamp=1000 + offset, base_offset=1000 + offset))
        if offset % 7 == 3:
            resting = LogSegment(two.context, 1000, two.size)
            two.seal()
            two = ActiveSegment.activate(resting, 1001 + offset)
            two.set_bounds(1 << 30, NEVER, bench.now_ms)
    one.seal(), two.seal()
    assert bench.files.read_whole(two.path(".index")) == bench.files.read_whole(one.path(".index"))
    assert two.largest() == TimestampOffset(1029, 1029)


def test_the_tail_remembers_the_newest_batches(bench: Any, batch: Batch) -> None:
    segment = _new(bench)
    for number in range(TAIL_BATCHES_MAX * 2):
        _append(segment, batch(2, base_offset=number * 2))
        assert len(segment.tail_offsets) == len(segment.tail_positions) < TAIL_BATCHES_MAX
        assert segment.tail_offsets[-1] == number * 2 + 1
    first = segment.locate(segment.tail_floor)
    assert first is not None
    assert (first.base_offset, first.position) == (segment.tail_floor, segment.tail_positions[0])


def test_room_ends_with_size_indexes_and_relative_offsets(bench: Any, batch: Batch) -> None:
    data = batch(1)
    segment = _new(bench)
    segment.set_bounds(len(data) * 2, NEVER, 0)
    assert segment.has_room(len(data) * 2, 0)
    assert not segment.has_room(len(data) * 2 + 1, 0)
    _append(segment, data)
    assert segment.has_room(len(data), 1)
    assert not segment.has_room(len(data) + 1, 1)
    segment.set_bounds(1 << 30, NEVER, 0)
    assert segment.has_room(1, RELATIVE_OFFSET_MAX)
    assert not segment.has_room(1, RELATIVE_OFFSET_MAX + 1)
    segment.set_bounds(1 << 40, NEVER, 0)
    assert not segment.has_room(2**31, 1)

    full = ActiveSegment.create(bench.place(0, 24), 10_000)
    full.set_bounds(1 << 30, NEVER, 0)
    for offset in range(10_000, 10_002):
        assert full.has_room(1, offset)
        _append(full, batch(1, base_offset=offset))
    assert not full.has_room(1, 10_002)


def test_age_is_counted_by_timestamps_from_the_first_batch(bench: Any, batch: Batch) -> None:
    segment = _new(bench)
    segment.set_bounds(1 << 30, 500, 10_000)
    assert not segment.is_too_old(1 << 50, 10_000)
    _append(segment, batch(1, timestamp=2000))
    assert not segment.is_too_old(2500, 1 << 50)
    assert segment.is_too_old(2501, 0)
    _append(segment, batch(1, timestamp=9000, base_offset=1))
    assert segment.is_too_old(2501, 0)
    resting = segment.seal()
    again = ActiveSegment.activate(resting, 2)
    again.set_bounds(1 << 30, 500, 10_000)
    assert not again.is_too_old(2500, 0)
    assert again.is_too_old(2501, 0)


def test_age_is_counted_by_the_clock_where_records_have_no_timestamps(bench: Any, batch: Batch) -> None:
    segment = _new(bench)
    segment.set_bounds(1 << 30, 500, 10_000)
    _append(segment, batch(1, timestamp=-1))
    assert not segment.is_too_old(-1, 10_500)
    assert segment.is_too_old(-1, 10_501)


@pytest.mark.parametrize("written", [0, 1, 40])
def test_a_failed_append_leaves_everything_as_it_was(bench: Any, batch: Batch, written: int) -> None:
    segment = _new(bench)
    _append(segment, batch(2))
    before = bench.files.read_whole(segment.path(".log"))
    bench.files.fail_next_write(errno.ENOSPC, written=written, name_end=".log")
    with pytest.raises(OSError, match="No space"):
        _append(segment, batch(2, base_offset=2))
    assert bench.files.read_whole(segment.path(".log")) == before
    assert segment.size == len(before)
    assert list(segment.tail_offsets) == [1]
    _append(segment, batch(2, base_offset=2))
    assert segment.next_offset() == 4


@given(
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=40),
    cuts=st.lists(st.integers(0, 100), min_size=1, max_size=3),
    interval=st.sampled_from([0, 100, 500]),
)
def test_a_cut_segment_is_as_if_no_more_had_been_written(
    new_bench: Callable[[], Any], batch: Batch, counts: list[int], cuts: list[int], interval: int
) -> None:
    bench = new_bench()
    segment, kept = _new(bench, 0, interval), _new(bench, 1_000_000, interval)
    written: list[tuple[int, int, int]] = []
    offset = 0
    for number, count in enumerate(counts):
        written.append((offset, count, 1000 + (number * 5) % 9))
        offset += count
    for start, count, at in written:
        _append(segment, batch(count, timestamp=at, base_offset=start))
    for cut in cuts:
        segment.truncate(cut)
        written = [one for one in written if one[0] + one[1] <= cut]
    for start, count, at in written:
        _append(kept, batch(count, timestamp=at, base_offset=1_000_000 + start))
    assert segment.size == kept.size == bench.files.size_of(segment.path(".log"))
    assert segment.offset_index() == kept.offset_index()
    assert segment.largest().timestamp == kept.largest().timestamp
    assert segment.largest().offset == kept.largest().offset - 1_000_000
    assert bytes(segment.offset_index()).startswith(bench.files.read_whole(segment.path(".index")))
    end = max((start + count for start, count, _ in written), default=0)
    _append(segment, batch(1, timestamp=5000, base_offset=end))
    for probe in range(segment.tail_floor, end + 1):
        place = segment.locate(probe)
        assert place is not None
        assert place.position in segment.tail_positions
    sealed = segment.seal()
    assert sealed.next_offset() == end + 1
    assert TIMES.last(bench.files.read_whole(sealed.path(".timeindex"))) == (5000, end)


@pytest.mark.parametrize("cut", [0, 3, 9])
def test_index_files_are_cut_with_their_segment(bench: Any, batch: Batch, cut: int) -> None:
    segment = _new(bench, interval_bytes=0)
    for offset in range(10):
        _append(segment, batch(1, timestamp=1000 + offset, base_offset=offset))
        segment.add_aborted(AbortedTransaction(7, offset, offset, offset))
    segment.write_indexes()
    segment.truncate(cut)
    assert bench.files.read_whole(segment.path(".index")) == segment.offset_index()
    assert bench.files.read_whole(segment.path(".timeindex")) == segment.time_index()
    if cut:
        aborted = decode_aborted(bench.files.read_whole(segment.path(".txnindex")), "it")
        assert aborted == segment.aborted() == [AbortedTransaction(7, one, one, one) for one in range(cut)]
    else:
        assert not bench.files.exists(segment.path(".txnindex"))


def test_what_is_appended_after_a_cut_is_indexed_on_file(bench: Any, batch: Batch) -> None:
    segment = _new(bench, interval_bytes=0)
    for offset in range(10):
        _append(segment, batch(1, timestamp=1000 + offset, base_offset=offset))
    segment.write_indexes()
    segment.truncate(4)
    for offset in range(4, 8):
        _append(segment, batch(2, timestamp=3000 + offset, base_offset=2 * offset - 4))
    sealed = segment.seal()
    rebuilt = sealed.scan().indexes
    rebuilt.add_largest_timestamp()
    assert bench.files.read_whole(sealed.path(".index")) == rebuilt.offsets
    assert bench.files.read_whole(sealed.path(".timeindex")) == rebuilt.times


def test_a_segment_that_was_cut_to_nothing_has_no_age(bench: Any, batch: Batch) -> None:
    segment = _new(bench)
    segment.set_bounds(1 << 30, 100, bench.now_ms)
    _append(segment, batch(1, timestamp=1000))
    assert segment.is_too_old(1101, bench.now_ms)
    segment.truncate(0)
    assert not segment.is_too_old(1101, bench.now_ms)


def test_indexes_taken_from_the_file_anew_are_those_that_were_there(bench: Any, batch: Batch) -> None:
    segment = _new(bench)
    _append(segment, *(batch(1, base_offset=offset, timestamp=1000 + offset) for offset in range(9)))
    segment.write_indexes()
    paths = [segment.path(".index"), segment.path(".timeindex")]
    before = [bench.files.read_whole(path) for path in paths]
    assert all(before)
    for path, content in zip(paths, before, strict=True):
        bench.files.write_whole(path, bytes(2 * len(content)))
    segment.rebuild_indexes()
    assert [bench.files.read_whole(path) for path in paths] == before
