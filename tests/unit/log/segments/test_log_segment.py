"""A segment at rest: searches, indexes that cannot be trusted, files that come and go."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.log.segments.active_segment import ActiveSegment
from odradek.log.segments.log_segment import LogSegment, OpenSegments, TimestampOffset
from odradek.log.segments.segment_format import OFFSETS, TIMES
from odradek.model.errors import BrokerError, ErrorCode
from odradek.records.codec import read_headers

Batch = Callable[..., bytearray]


def _fill(segment: ActiveSegment, *batches: bytearray) -> None:
    for data in batches:
        segment.append(data, read_headers(data))


def _sealed(
    bench: Any, batches: list[bytearray], base_offset: int = 0, interval_bytes: int = 100
) -> LogSegment:
    active = ActiveSegment.create(bench.place(interval_bytes), base_offset)
    _fill(active, *batches)
    return active.seal()


@given(data=st.data())
def test_every_offset_is_located(data: st.DataObject, new_bench: Callable[[], Any], batch: Batch) -> None:
    bench = new_bench()
    gaps = data.draw(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=30))
    offset, batches, expected = 50, [], {}
    position = 0
    for gap, count in gaps:
        made = batch(count, base_offset=offset + gap)
        for covered in range(offset, offset + gap + count):
            expected[covered] = position
        batches.append(made)
        position += len(made)
        offset += gap + count
    segment = _sealed(bench, batches, 50, data.draw(st.sampled_from([0, 100, 300, 10_000])))
    for covered, position in expected.items():
        place = segment.locate(covered)
        assert place is not None
        assert place.position == position
    assert segment.locate(offset) is None
    assert segment.next_offset() == offset


def test_positions_of_ends(bench: Any, batch: Batch) -> None:
    segment = _sealed(bench, [batch(2), batch(2, base_offset=2)])
    assert segment.position_before(0) == 0
    assert segment.position_before(1) == 0
    assert segment.position_before(2) == segment.size // 2
    assert segment.position_before(4) == segment.size


def test_an_empty_segment_ends_where_it_begins(bench: Any) -> None:
    segment = _sealed(bench, [], 33)
    assert segment.next_offset() == 33
    assert segment.locate(33) is None
    assert segment.largest() == TimestampOffset(-1, 33)
    assert segment.first_timestamp() == -1


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "odd size", "zeros at the end", "beyond the log"])
def test_an_index_that_cannot_be_true_is_rebuilt(bench: Any, batch: Batch, suffix: str, damage: str) -> None:
    batches = [batch(1, timestamp=1000 + number, base_offset=number) for number in range(20)]
    segment = _sealed(bench, batches)
    path = segment.path(suffix)
    good = bench.files.read_whole(path)
    match damage:
        case "missing":
            bench.files.remove(path)
        case "odd size":
            bench.files.write_whole(path, good[:-3])
        case "zeros at the end":
            bench.files.write_whole(path, good + bytes(len(good)))
        case _:
            entry = OFFSETS.pair.pack(500, 1 << 20) if suffix == ".index" else TIMES.pair.pack(500, -4)
            bench.files.write_whole(path, good + entry)
    again = LogSegment(segment.context, 0, segment.size)
    assert again.locate(13) == segment.locate(13)
    assert again.find_time(1013, 0) == TimestampOffset(1013, 13, -1)
    assert bench.files.read_whole(path) == good


def test_an_index_entry_that_points_astray_gives_the_index_away(bench: Any, batch: Batch) -> None:
    segment = _sealed(bench, [batch(1, base_offset=number) for number in range(20)])
    good = bench.files.read_whole(segment.path(".index"))
    for number in range(OFFSETS.count(good)):
        for flipped in range(8):
            astray = bytearray(good)
            astray[number * 8 + flipped] ^= 0x11
            bench.files.write_whole(segment.path(".index"), bytes(astray))
            again = LogSegment(segment.context, 0, segment.size)
            for offset in range(20):
                place = again.locate(offset)
                assert place is not None
                assert place.base_offset == offset
            assert again.next_offset() == 20


def test_reading_damaged_batches_is_refused(bench: Any, batch: Batch) -> None:
    segment = _sealed(bench, [batch(1), batch(1, base_offset=1)])
    bench.files.open(segment.path(".log")).write_at(segment.size // 2 + 8, b"\xff\xff\xff\xff")
    with pytest.raises(BrokerError) as refusal:
        segment.locate(1)
    assert refusal.value.code is ErrorCode.CORRUPT_MESSAGE


def test_records_are_found_by_time(bench: Any, batch: Batch) -> None:
    times = [1000, 1100, 1050, 1200]
    segment = _sealed(
        bench, [batch(2, timestamp=at, base_offset=number * 2) for number, at in enumerate(times)]
    )
    assert segment.largest() == TimestampOffset(1201, 7)
    assert segment.find_time(0, 0) == TimestampOffset(1000, 0)
    assert segment.find_time(1001, 0) == TimestampOffset(1001, 1)
    assert segment.find_time(1002, 0) == TimestampOffset(1100, 2)
    assert segment.find_time(1002, 4) == TimestampOffset(1050, 4)
    assert segment.find_time(1202, 0) is None
    assert segment.record_of_largest() == TimestampOffset(1201, 7)


def test_the_largest_timestamp_is_read_without_opening_the_segment(bench: Any, batch: Batch) -> None:
    made = _sealed(bench, [batch(3, timestamp=5000)])
    segment = LogSegment(made.context, 0, made.size)
    assert segment.largest() == TimestampOffset(5002, 2)
    assert len(bench.opened) == 0


def test_no_more_segments_stay_open_than_allowed(bench: Any, batch: Batch) -> None:
    place = bench.place()
    place.opened = OpenSegments(2)
    segments = []
    for number in range(4):
        active = ActiveSegment.create(place, number * 10)
        _fill(active, batch(2, base_offset=number * 10))
        segments.append(active.seal())
    slices = []
    for segment in segments:
        assert segment.locate(segment.base_offset) is not None
        slices.append(segment.file())
    assert len(place.opened) == 2
    assert [segment._file is not None for segment in segments] == [False, False, True, True]
    # What is being sent is not cut off by that.
    assert all(file.read_at(0, 10) for file in slices)
    assert segments[0].locate(1) is not None
    assert len(place.opened) == 2


def test_removal_takes_all_files_of_the_segment(bench: Any, batch: Batch) -> None:
    segment = _sealed(bench, [batch(1)])
    _sealed(bench, [batch(1, base_offset=10)], 10)
    bench.files.write_whole(segment.path(".txnindex"), b"")
    segment.remove()
    segment.remove()
    assert bench.files.list_names(segment.context.directory) == [
        "00000000000000000010.index",
        "00000000000000000010.log",
        "00000000000000000010.timeindex",
    ]


def test_syncing_a_segment_that_was_removed_does_no_harm(bench: Any, batch: Batch) -> None:
    segment = _sealed(bench, [batch(1)])
    segment.remove()
    segment.sync()


def test_no_flipped_bit_of_a_time_index_hides_a_record_or_changes_the_largest_time(
    bench: Any, batch: Batch
) -> None:
    times = [1000 + 10 * number for number in range(8)]
    batches = [batch(1, timestamp=at, base_offset=number) for number, at in enumerate(times)]
    path = _sealed(bench, batches).path(".timeindex")
    whole = bench.files.read_whole(path)
    size = sum(map(len, batches))
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        bench.files.write_whole(path, bytes(damaged))
        segment = LogSegment(bench.place(100), 0, size)
        assert segment.largest() == TimestampOffset(1070, 7)
        assert [segment.find_time(at, 0) for at in times] == [
            TimestampOffset(at, number, -1) for number, at in enumerate(times)
        ]
        segment.close()


@pytest.mark.parametrize(("timestamp", "newest_ms"), [(0, 0), (1, 1), (-1, 1_000_000)])
def test_a_segment_is_as_old_as_its_newest_record_or_its_file(
    bench: Any, batch: Batch, timestamp: int, newest_ms: int
) -> None:
    assert _sealed(bench, [batch(1, timestamp=timestamp)]).newest_ms() == newest_ms
