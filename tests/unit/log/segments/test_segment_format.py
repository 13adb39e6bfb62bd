"""Names, index entries and scans of segment files."""

from bisect import bisect_right
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.log.segments.segment_format import (
    OFFSETS,
    TIMES,
    DirectoryKind,
    DirectoryName,
    FileName,
    IndexBuilder,
    IndexFormat,
    directory_name,
    file_name,
    is_valid_offset_index,
    is_valid_time_index,
    parse_directory_name,
    parse_file_name,
    scan,
    time_entries_before,
    walk_headers,
)
from odradek.model.ids import TopicPartition
from odradek.records.batch import BatchBuilder
from odradek.records.codec import decode
from odradek.records.conversion import down_convert
from odradek.records.layout import BatchHeader

Batch = Callable[..., bytearray]


@given(
    st.integers(0, 10**20 - 1), st.sampled_from([".log", ".index", ".timeindex", ".txnindex", ".snapshot"])
)
def test_file_names_have_twenty_digits_and_parse_back(base_offset: int, suffix: str) -> None:
    name = file_name(base_offset, suffix)
    assert name == str(base_offset).zfill(20) + suffix
    assert parse_file_name(name) == FileName(base_offset, suffix, "")
    assert parse_file_name(f"{name}.deleted") == FileName(base_offset, suffix, ".deleted")


@pytest.mark.parametrize(
    "name", ["partition.metadata", "leader-epoch-checkpoint", "123.log", "0" * 20, "0" * 21 + ".log", ".log"]
)
def test_other_file_names_are_not_segments(name: str) -> None:
    assert parse_file_name(name) is None


@pytest.mark.parametrize("topic", ["orders", "my-topic.with_all", "a-1", "-", "x" * 249])
@pytest.mark.parametrize("kind", list(DirectoryKind))
def test_directory_names_parse_back(topic: str, kind: DirectoryKind) -> None:
    topic_partition = TopicPartition(topic, 12)
    name = directory_name(topic_partition, kind, "0123456789abcdef0123456789abcdef")
    if kind in {DirectoryKind.DELETE, DirectoryKind.STRAY}:
        assert len(name) <= 255
        topic = topic[: 255 - len(f"-12.{'f' * 32}{kind.value}")]
    assert parse_directory_name(name) == DirectoryName(TopicPartition(topic, 12), kind)


def test_directory_names_match_kafka() -> None:
    orders = TopicPartition("orders", 3)
    assert directory_name(orders) == "orders-3"
    assert directory_name(orders, DirectoryKind.DELETE, "ab") == "orders-3.ab-delete"
    assert directory_name(orders, DirectoryKind.FUTURE, "ab") == "orders-3.ab-future"
    assert directory_name(orders, DirectoryKind.STRAY, "ab") == "orders-3.ab-stray"


@pytest.mark.parametrize(
    "name", ["orders", "orders-", "-3", "orders-x", "orders-3-delete", "orders-3.-delete", ""]
)
def test_other_directory_names_are_not_logs(name: str) -> None:
    assert parse_directory_name(name) is None


@given(
    st.sampled_from([OFFSETS, TIMES]),
    st.lists(st.integers(0, 1000), unique=True, max_size=30),
    st.integers(-1, 1001),
)
def test_lookup_returns_the_last_entry_at_or_below_the_key(
    form: IndexFormat, keys: list[int], wanted_key: int
) -> None:
    keys.sort()
    index = b"".join(form.pair.pack(key, number) for number, key in enumerate(keys))
    number = bisect_right(keys, wanted_key) - 1
    assert form.floor(index, wanted_key) == number
    assert form.lookup(memoryview(index), wanted_key) == ((keys[number], number) if number >= 0 else None)
    assert form.entries(index) == [(key, number) for number, key in enumerate(keys)]
    assert form.last(index) == ((keys[-1], len(keys) - 1) if keys else None)


def test_index_contains_complete_entries_only() -> None:
    assert OFFSETS.entry_bytes == 8
    assert TIMES.entry_bytes == 12
    assert OFFSETS.entries_max(100) == 12
    assert TIMES.entries_max(100) == 8
    assert OFFSETS.entries_max(4) == 0


def test_invalid_indexes_are_detected() -> None:
    entry = OFFSETS.pair.pack
    assert is_valid_offset_index(b"", 0)
    assert is_valid_offset_index(entry(5, 100), 101)
    assert not is_valid_offset_index(entry(5, 100), 100)
    assert not is_valid_offset_index(entry(5, 100)[:-1], 1000)
    assert not is_valid_offset_index(entry(5, 100) + entry(-1, 200), 1000)
    assert not is_valid_offset_index(entry(5, 100) + bytes(8), 1000)
    entry = TIMES.pair.pack
    assert is_valid_time_index(b"")
    assert is_valid_time_index(entry(1000, 3) + entry(1001, 4))
    assert not is_valid_time_index(entry(1000, 3) + entry(999, 4))
    assert not is_valid_time_index(entry(1000, 3) + bytes(12))
    assert not is_valid_time_index(entry(1000, 3)[:-1])


@given(st.lists(st.integers(0, 100), unique=True), st.integers(0, 101))
def test_time_entries_are_counted_by_offset(offsets: list[int], before: int) -> None:
    offsets.sort()
    index = b"".join(TIMES.pair.pack(number, offset) for number, offset in enumerate(offsets))
    assert time_entries_before(index, before) == sum(offset < before for offset in offsets)


def test_entry_is_added_after_more_than_the_interval() -> None:
    indexes = IndexBuilder(100, 50, 1000)
    for number in range(6):
        indexes.add(100 + number, 7000 + number, number * 30, 30)
    assert OFFSETS.entries(indexes.offsets) == [(2, 60), (4, 120)]
    assert TIMES.entries(indexes.times) == [(7002, 2), (7004, 4)]
    indexes.add_max_timestamp()
    indexes.add_max_timestamp()
    assert TIMES.entries(indexes.times) == [(7002, 2), (7004, 4), (7005, 5)]


def test_time_entry_refers_to_the_batch_with_the_max_timestamp() -> None:
    indexes = IndexBuilder(0, 0, 1000)
    for offset, timestamp in enumerate([10, 30, 20, 30, 40, -1]):
        indexes.add(offset, timestamp, offset * 10, 10)
    assert TIMES.entries(indexes.times) == [(30, 1), (40, 4)]
    assert (indexes.max_timestamp, indexes.offset_of_max_timestamp) == (40, 4)


def test_indexes_are_bounded_and_reserve_the_last_time_entry() -> None:
    indexes = IndexBuilder(0, 0, 36)
    assert not indexes.is_full
    for offset in range(20):
        indexes.add(offset, offset, offset * 10, 10)
    assert indexes.is_full
    assert OFFSETS.count(indexes.offsets) == 4
    assert TIMES.count(indexes.times) == 2
    indexes.add_max_timestamp()
    assert TIMES.count(indexes.times) == 3
    assert IndexBuilder(0, 0, 4).is_full


def _scan(log: bytes, base_offset: int = 0) -> tuple[int, int, str | None, list[BatchHeader]]:
    seen: list[BatchHeader] = []
    scanned = scan(
        memoryview(log),
        base_offset,
        IndexBuilder(base_offset, 4096, 1 << 20),
        lambda header, _: seen.append(header),
    )
    return scanned.valid_end, scanned.next_offset, scanned.problem, seen


def test_scan_reads_all_batches(batch: Batch) -> None:
    log = b"".join(batch(3, base_offset=10 + number * 5) for number in range(4))
    valid_end, next_offset, problem, seen = _scan(log, 10)
    assert (valid_end, next_offset, problem) == (len(log), 28, None)
    assert [header.base_offset for header in seen] == [10, 15, 20, 25]


def test_scan_of_an_empty_log_returns_the_base_offset() -> None:
    assert _scan(b"", 77) == (0, 77, None, [])


def test_scan_stops_at_an_incomplete_batch(batch: Batch) -> None:
    whole, last = bytes(batch(2)), bytes(batch(2, base_offset=2))
    for cut in range(1, len(last)):
        valid_end, next_offset, problem, _ = _scan(whole + last[:cut])
        assert (valid_end, next_offset) == (len(whole), 2)
        assert problem is not None


def test_scan_stops_at_a_flipped_bit(batch: Batch) -> None:
    log = b"".join(bytes(batch(2, base_offset=number * 2)) for number in range(3))
    second = len(log) // 3
    for position in range(second, 2 * second):
        if 12 <= position - second < 16:
            continue  # the leader epoch, which the checksum does not cover
        corrupt = bytearray(log)
        corrupt[position] ^= 1
        valid_end, next_offset, problem, _ = _scan(bytes(corrupt))
        # The base offset is not covered either; a change is detected if it decreases or overflows.
        assert (valid_end, next_offset) == (second, 2) or position - second < 8
        assert problem is not None or position - second < 8


@pytest.mark.parametrize("garbage", [bytes(200), b"\xff" * 200, b"\0" * 8 + b"\0\0\0\x0d" + bytes(100)])
def test_scan_stops_at_garbage(batch: Batch, garbage: bytes) -> None:
    log = bytes(batch(2))
    valid_end, next_offset, problem, seen = _scan(log + garbage)
    assert (valid_end, next_offset, len(seen)) == (len(log), 2, 1)
    assert problem


def test_scan_stops_where_offsets_go_back(batch: Batch) -> None:
    log = bytes(batch(2)) + bytes(batch(2, base_offset=1))
    valid_end, next_offset, problem, _ = _scan(log)
    assert (valid_end, next_offset) == (len(log) // 2, 2)
    assert problem == "base offset must be >= 2, got 1"
    assert _scan(log, 5)[:2] == (0, 5)


def test_scan_reads_batches_across_buffers(batch: Batch) -> None:
    large = [bytes(batch(1, value=bytes(700_000), base_offset=offset)) for offset in range(3)]
    huge = bytes(batch(1, value=bytes(3_000_000), base_offset=3))
    log = b"".join(large) + huge + bytes(batch(1, base_offset=4))
    assert _scan(log)[:3] == (len(log), 5, None)
    assert _scan(log[:-1])[:2] == (len(log) - len(batch(1)), 4)
    assert [header.base_offset for header in walk_headers(memoryview(log))] == [0, 1, 2, 3, 4]


def test_walk_headers_stops_at_an_unreadable_batch(batch: Batch) -> None:
    log = bytes(batch(2)) + bytes(batch(2, base_offset=2)) + bytes(100)
    assert [header.base_offset for header in walk_headers(memoryview(log))] == [0, 2]


def test_scan_stops_at_a_relative_offset_overflow(batch: Batch) -> None:
    near, far = bytes(batch(1, base_offset=2**31 - 1)), bytes(batch(1, base_offset=2**31))
    assert _scan(near)[:3] == (len(near), 2**31, None)
    assert _scan(near + far)[:2] == (len(near), 2**31)


def test_scan_reads_old_message_formats() -> None:
    builder = BatchBuilder(5)
    builder.append(1000, b"k", b"v")
    builder.append(2000, b"k", b"w")
    log = bytes(down_convert(builder.build(), 1, 0))
    assert len(decode(log)) == 2
    valid_end, next_offset, problem, seen = _scan(log, 5)
    assert (valid_end, next_offset, problem, len(seen)) == (len(log), 7, None, 2)
