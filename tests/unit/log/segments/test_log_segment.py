"""Sealed segments: lookups, invalid indexes, open files, deletion."""

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
    harness: Any, batches: list[bytearray], base_offset: int = 0, interval_bytes: int = 100
) -> LogSegment:
    active = ActiveSegment.create(harness.context(interval_bytes), base_offset)
    _fill(active, *batches)
    return active.seal()


@given(data=st.data())
def test_every_offset_is_located(data: st.DataObject, new_harness: Callable[[], Any], batch: Batch) -> None:
    harness = new_harness()
    gaps = data.draw(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=30))
    offset, batches, expected = 50, [], {}
    position = 0
    for gap, count in gaps:
        built = batch(count, base_offset=offset + gap)
        for covered in range(offset, offset + gap + count):
            expected[covered] = position
        batches.append(built)
        position += len(built)
        offset += gap + count
    segment = _sealed(harness, batches, 50, data.draw(st.sampled_from([0, 100, 300, 10_000])))
    for covered, position in expected.items():
        located = segment.locate(covered)
        assert located is not None
        assert located.position == position
    assert segment.locate(offset) is None
    assert segment.next_offset() == offset


def test_position_before_an_offset(harness: Any, batch: Batch) -> None:
    segment = _sealed(harness, [batch(2), batch(2, base_offset=2)])
    assert segment.position_before(0) == 0
    assert segment.position_before(1) == 0
    assert segment.position_before(2) == segment.size // 2
    assert segment.position_before(4) == segment.size


def test_empty_segment_ends_at_its_base_offset(harness: Any) -> None:
    segment = _sealed(harness, [], 33)
    assert segment.next_offset() == 33
    assert segment.locate(33) is None
    assert segment.max_timestamp_and_offset() == TimestampOffset(-1, 33)
    assert segment.first_timestamp() == -1


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "odd size", "zeros at the end", "beyond the log"])
def test_invalid_index_is_rebuilt(harness: Any, batch: Batch, suffix: str, damage: str) -> None:
    batches = [batch(1, timestamp=1000 + number, base_offset=number) for number in range(20)]
    segment = _sealed(harness, batches)
    path = segment.path(suffix)
    good = harness.files.read_whole(path)
    match damage:
        case "missing":
            harness.files.remove(path)
        case "odd size":
            harness.files.write_whole(path, good[:-3])
        case "zeros at the end":
            harness.files.write_whole(path, good + bytes(len(good)))
        case _:
            entry = OFFSETS.pair.pack(500, 1 << 20) if suffix == ".index" else TIMES.pair.pack(500, -4)
            harness.files.write_whole(path, good + entry)
    again = LogSegment(segment.context, 0, segment.size)
    assert again.locate(13) == segment.locate(13)
    assert again.find_offset_by_timestamp(1013, 0) == TimestampOffset(1013, 13, -1)
    assert harness.files.read_whole(path) == good


def test_index_with_a_wrong_entry_is_rebuilt(harness: Any, batch: Batch) -> None:
    segment = _sealed(harness, [batch(1, base_offset=number) for number in range(20)])
    good = harness.files.read_whole(segment.path(".index"))
    for number in range(OFFSETS.count(good)):
        for flipped in range(8):
            wrong = bytearray(good)
            wrong[number * 8 + flipped] ^= 0x11
            harness.files.write_whole(segment.path(".index"), bytes(wrong))
            again = LogSegment(segment.context, 0, segment.size)
            for offset in range(20):
                located = again.locate(offset)
                assert located is not None
                assert located.base_offset == offset
            assert again.next_offset() == 20


def test_reading_a_corrupt_batch_fails(harness: Any, batch: Batch) -> None:
    segment = _sealed(harness, [batch(1), batch(1, base_offset=1)])
    harness.files.open(segment.path(".log")).write_at(segment.size // 2 + 8, b"\xff\xff\xff\xff")
    with pytest.raises(BrokerError) as error:
        segment.locate(1)
    assert error.value.code is ErrorCode.CORRUPT_MESSAGE


def test_records_are_found_by_timestamp(harness: Any, batch: Batch) -> None:
    times = [1000, 1100, 1050, 1200]
    segment = _sealed(
        harness,
        [batch(2, timestamp=timestamp, base_offset=number * 2) for number, timestamp in enumerate(times)],
    )
    assert segment.max_timestamp_and_offset() == TimestampOffset(1201, 7)
    assert segment.find_offset_by_timestamp(0, 0) == TimestampOffset(1000, 0)
    assert segment.find_offset_by_timestamp(1001, 0) == TimestampOffset(1001, 1)
    assert segment.find_offset_by_timestamp(1002, 0) == TimestampOffset(1100, 2)
    assert segment.find_offset_by_timestamp(1002, 4) == TimestampOffset(1050, 4)
    assert segment.find_offset_by_timestamp(1202, 0) is None
    assert segment.find_max_timestamp_record() == TimestampOffset(1201, 7)


def test_max_timestamp_is_read_without_opening_the_segment(harness: Any, batch: Batch) -> None:
    built = _sealed(harness, [batch(3, timestamp=5000)])
    segment = LogSegment(built.context, 0, built.size)
    assert segment.max_timestamp_and_offset() == TimestampOffset(5002, 2)
    assert len(harness.opened) == 0


def test_open_segments_are_limited(harness: Any, batch: Batch) -> None:
    context = harness.context()
    context.opened = OpenSegments(2)
    segments = []
    for number in range(4):
        active = ActiveSegment.create(context, number * 10)
        _fill(active, batch(2, base_offset=number * 10))
        segments.append(active.seal())
    slices = []
    for segment in segments:
        assert segment.locate(segment.base_offset) is not None
        slices.append(segment.file())
    assert len(context.opened) == 2
    assert [segment._file is not None for segment in segments] == [False, False, True, True]
    # Slices that are being sent stay readable.
    assert all(file.read_at(0, 10) for file in slices)
    assert segments[0].locate(1) is not None
    assert len(context.opened) == 2


def test_remove_deletes_all_files_of_the_segment(harness: Any, batch: Batch) -> None:
    segment = _sealed(harness, [batch(1)])
    _sealed(harness, [batch(1, base_offset=10)], 10)
    harness.files.write_whole(segment.path(".txnindex"), b"")
    segment.remove()
    segment.remove()
    assert harness.files.list_names(segment.context.directory) == [
        "00000000000000000010.index",
        "00000000000000000010.log",
        "00000000000000000010.timeindex",
    ]


def test_sync_of_a_removed_segment_succeeds(harness: Any, batch: Batch) -> None:
    segment = _sealed(harness, [batch(1)])
    segment.remove()
    segment.sync()


def test_flipped_bits_of_a_time_index_do_not_affect_lookups(harness: Any, batch: Batch) -> None:
    times = [1000 + 10 * number for number in range(8)]
    batches = [batch(1, timestamp=timestamp, base_offset=number) for number, timestamp in enumerate(times)]
    path = _sealed(harness, batches).path(".timeindex")
    whole = harness.files.read_whole(path)
    size = sum(map(len, batches))
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        harness.files.write_whole(path, bytes(damaged))
        segment = LogSegment(harness.context(100), 0, size)
        assert segment.max_timestamp_and_offset() == TimestampOffset(1070, 7)
        assert [segment.find_offset_by_timestamp(timestamp, 0) for timestamp in times] == [
            TimestampOffset(timestamp, number, -1) for number, timestamp in enumerate(times)
        ]
        segment.close()


@pytest.mark.parametrize(("timestamp", "largest_timestamp"), [(0, 0), (1, 1), (-1, 1_000_000)])
def test_largest_timestamp_is_of_the_newest_record_or_the_file(
    harness: Any, batch: Batch, timestamp: int, largest_timestamp: int
) -> None:
    assert _sealed(harness, [batch(1, timestamp=timestamp)]).largest_timestamp() == largest_timestamp
