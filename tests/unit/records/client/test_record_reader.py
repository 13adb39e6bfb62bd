"""Fetched bytes become records: all formats, committed or not, and a clear error out of bad bytes."""

import pickle
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fetched_batches import (
    aborted_lists,
    batch,
    fetches,
    marker,
    transactional,
)

from odradek.config import broker as settings
from odradek.model.client_errors import ConcurrentUse, RecordCorrupt
from odradek.model.errors import ErrorCode
from odradek.model.protocol_enums import Compression, TimestampType
from odradek.records import _codec, codec
from odradek.records.batch import BatchBuilder, Record
from odradek.records.compression import DECOMPRESSED_BYTES_MAX
from odradek.records.control_records import ControlRecordType
from odradek.records.layout import INT64_MAX, POLL_COLUMNS, ColumnSet
from odradek.records.message_set import write_message_set
from odradek.records.pure import consumer, record_batch, record_reader

TWINS = (_codec, consumer)
FIELDS = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
SIZES = ("leader_epoch", "serialized_key_size", "serialized_value_size")


@pytest.fixture(params=TWINS, ids=["compiled", "python"])
def twin(request: pytest.FixtureRequest) -> ModuleType:
    made: ModuleType = request.param
    return made


def values_of(reader: Any, each: int = 100) -> list[Any]:
    found = []
    while taken := reader.take(each):
        found += [record.value for record in taken]
    return found


def seen(record: Any) -> tuple[Any, ...]:
    return tuple(getattr(record, name) for name in FIELDS + SIZES)


def steps(twin: ModuleType, data: bytes, sizes: list[int], **options: Any) -> list[Any]:
    """What a reader gives, call by call, until it ends or fails; as records and as columns."""
    observed: list[Any] = []
    for as_columns in (False, True):
        reader = twin.RecordReader(data, "t", 2, 0, **options)
        for call in range(200):
            size = sizes[call % len(sizes)]
            try:
                if as_columns:
                    builder = twin.ColumnBuilder()
                    count = reader.take_columns(size, builder)
                    given = [
                        bytes(part) if not isinstance(part, int | tuple) else part
                        for part in builder.finish()
                    ]
                else:
                    taken = reader.take(size)
                    count = len(taken)
                    given = [seen(record) for record in taken]
            except RecordCorrupt as refusal:
                observed.append(("refuses", refusal.code, reader.next_offset))
                with pytest.raises(RecordCorrupt):
                    reader.take(1)
                break
            assert count <= size
            observed.append(
                (given, reader.next_offset, reader.exhausted, reader.cut_off, reader.leader_epoch)
            )
            if reader.exhausted or not count:
                break
        else:
            raise AssertionError("the reader does not end")
    return observed


sizes = st.lists(st.integers(1, 7), min_size=1, max_size=3)


@given(fetches(), sizes, aborted_lists)
def test_twins_read_the_same(data: bytes, each: list[int], aborted: Any) -> None:
    assert steps(_codec, data, each, aborted=aborted) == steps(consumer, data, each, aborted=aborted)


@given(fetches(), st.data(), sizes, st.booleans(), aborted_lists)
def test_damage_is_judged_alike_and_ends(
    data: bytes, draws: st.DataObject, each: list[int], check: bool, aborted: Any
) -> None:
    broken = bytearray(data)
    for _ in range(draws.draw(st.integers(1, 4))):
        if broken:
            at = draws.draw(st.integers(0, len(broken) - 1))
            broken[at] = draws.draw(st.integers(0, 255))
    if draws.draw(st.booleans()) and len(broken) > 61 and broken[16] == 2:
        size = int.from_bytes(broken[8:12], "big", signed=True) + 12
        if 61 <= size <= len(broken):
            broken[17:21] = record_batch.crc32c(broken[21:size]).to_bytes(4, "big")
    options = {"aborted": aborted, "check_crcs": check, "decompressed_bytes_max": 100_000}
    assert steps(_codec, bytes(broken), each, **options) == steps(consumer, bytes(broken), each, **options)


@given(st.binary(max_size=200), sizes)
def test_noise_is_judged_alike_and_ends(data: bytes, each: list[int]) -> None:
    assert steps(_codec, data, each, check_crcs=False) == steps(consumer, data, each, check_crcs=False)


@given(fetches(), st.integers(0, 40))
def test_what_is_read_is_what_the_batches_hold_from_the_offset_on(data: bytes, start: int) -> None:
    wanted = [
        record
        for header in codec.read_headers(data)
        if not header.is_control
        for record in codec.decode_batch(data, header)
        if record.offset >= start
    ]
    taken = codec.RecordReader(data, "t", 0, start).take(1000)
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in taken] == [tuple(r) for r in wanted]


def test_a_record_says_where_it_was_read(twin: ModuleType) -> None:
    builder = BatchBuilder(50, leader_epoch=4, append_time_ms=777)
    builder.append(1, None, b"value", [("h", b"x")])
    (record,) = twin.RecordReader(builder.build(), "orders", 3, 0).take(10)
    assert seen(record) == (
        "orders", 3, 50, 777, TimestampType.LOG_APPEND_TIME, None, b"value", (("h", b"x"),), 4, -1, 5
    )  # fmt: skip
    assert record.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert eval(f"dict({repr(record)[len('ConsumerRecord(') : -1]})")["offset"] == 50


def test_old_messages_have_no_headers_and_perhaps_no_time(twin: ModuleType) -> None:
    oldest = write_message_set([Record(3, 9, b"k", b"v")], 0, Compression.GZIP)
    newer = write_message_set([Record(4, 9, None, None), Record(5, 9, b"", b"")], 1, Compression.SNAPPY, 55)
    reader = twin.RecordReader(oldest + newer, "t", 0, 0)
    records = reader.take(10)
    assert [(r.offset, r.timestamp, r.timestamp_type) for r in records] == [
        (3, -1, None),
        (4, 55, TimestampType.LOG_APPEND_TIME),
        (5, 55, TimestampType.LOG_APPEND_TIME),
    ]
    assert [(r.key, r.serialized_key_size) for r in records] == [(b"k", 1), (None, -1), (b"", 0)]
    assert reader.exhausted
    assert reader.next_offset == 6


def test_records_before_the_start_are_left_out_also_within_a_batch(twin: ModuleType) -> None:
    data = batch(10, b"a", b"b", b"c") + batch(13, b"d")
    assert values_of(twin.RecordReader(data, "t", 0, 12)) == [b"c", b"d"]
    assert values_of(twin.RecordReader(data, "t", 0, 13)) == [b"d"]
    old = write_message_set([Record(i, 1, None, b"%d" % i) for i in range(4)], 1, Compression.GZIP)
    assert values_of(twin.RecordReader(old, "t", 0, 2)) == [b"2", b"3"]


def test_records_come_in_portions_and_the_offset_follows(twin: ModuleType) -> None:
    reader = twin.RecordReader(batch(10, b"a", b"b", b"c") + batch(20, b"d"), "t", 0, 0)
    assert (reader.next_offset, reader.exhausted) == (0, False)
    assert [r.value for r in reader.take(2)] == [b"a", b"b"]
    assert (reader.next_offset, reader.exhausted) == (12, False)
    assert reader.take(0) == []
    assert [r.value for r in reader.take(2)] == [b"c", b"d"]
    assert (reader.next_offset, reader.exhausted, reader.cut_off, reader.bytes_left) == (21, True, False, 0)
    assert reader.take(5) == []


def test_an_offset_range_that_its_records_no_longer_fill_is_passed(twin: ModuleType) -> None:
    builder = BatchBuilder(5)
    builder.append(1, b"k", b"v")
    reader = twin.RecordReader(builder.build(last_offset=30), "t", 0, 0)
    assert len(reader.take(10)) == 1
    assert reader.next_offset == 31
    empty = twin.RecordReader(BatchBuilder(40).build(last_offset=44), "t", 0, 40)
    assert empty.take(10) == []
    assert empty.next_offset == 45


def test_a_batch_that_is_cut_off_is_left_for_the_next_fetch(twin: ModuleType) -> None:
    whole = batch(0, b"a")
    for kept in (1, 11, 16, 17, 60, len(whole) - 1):
        reader = twin.RecordReader(whole + batch(1, b"b")[:kept], "t", 0, 0)
        assert values_of(reader) == [b"a"]
        assert (reader.exhausted, reader.cut_off, reader.next_offset) == (True, True, 1)
    nothing = twin.RecordReader(b"", "t", 0, 7)
    assert (nothing.exhausted, nothing.cut_off, nothing.next_offset) == (True, False, 7)


def end_of(twin: ModuleType, data: bytes) -> int | None:
    end: int | None = twin.RecordReader(data, "t", 0, 0).end_offset()
    return end


def test_fetched_records_end_after_the_last_whole_batch(twin: ModuleType) -> None:
    first, second = batch(5, b"a", b"b"), BatchBuilder(7)
    second.append(1, b"k", b"v")
    later = second.build(last_offset=14)
    assert end_of(twin, first) == 7
    assert end_of(twin, first + later) == 15
    assert end_of(twin, first + later[:-1]) == 7
    assert end_of(twin, first + later[:20]) == 7
    assert end_of(twin, b"") is None
    assert end_of(twin, later[:-1]) is None


def test_no_end_is_told_of_batches_that_are_too_many_or_old(twin: ModuleType) -> None:
    assert end_of(twin, batch(0, b"a") * 1023) == 1
    assert end_of(twin, batch(0, b"a") * 1024) is None
    assert end_of(twin, write_message_set([Record(0, 1, None, b"a")], 1, Compression.NONE)) is None


@given(fetches() | st.binary(min_size=1, max_size=200), st.data())
def test_twins_find_the_same_end(data: bytes, chosen: st.DataObject) -> None:
    damaged = bytearray(data)
    for _ in range(chosen.draw(st.integers(0, 2))):
        damaged[chosen.draw(st.integers(0, len(data) - 1))] ^= chosen.draw(st.integers(1, 255))
    assert end_of(_codec, bytes(damaged)) == end_of(consumer, bytes(damaged))


def test_a_blank_buffer_has_the_size_asked_for(twin: ModuleType) -> None:
    assert [len(twin.allocate_fetch_buffer(size)) for size in (0, 1, 1_000_000)] == [0, 1, 1_000_000]
    with pytest.raises(ValueError, match="negative count"):
        twin.allocate_fetch_buffer(-1)


@given(st.lists(st.tuples(st.integers(60_000, 300_000), st.integers(0, 5)), min_size=5, max_size=40))
def test_a_blank_buffer_is_nobody_elses_while_a_view_of_it_lives(asked: list[tuple[int, int]]) -> None:
    """Buffers are kept for the next who asks, but only once the last view of them has gone."""
    held: list[tuple[memoryview, int]] = []
    for number, (size, kept) in enumerate(asked):
        buffer = _codec.allocate_fetch_buffer(size)
        assert len(buffer) == size
        mark = number % 251 + 1
        buffer[:] = bytes([mark]) * size
        held.append((buffer[size // 2 :], mark))
        del buffer
        while len(held) > kept:
            view, made = held.pop(0)
            assert view.tobytes() == bytes([made]) * len(view)
            del view


def test_aborted_transactions_are_left_out_of_committed_reading(twin: ModuleType) -> None:
    data = b"".join(
        (
            transactional(0, 7, b"aborted 0", b"aborted 1"),
            transactional(2, 8, b"committed 2"),
            batch(3, b"plain 3"),
            transactional(4, 7, b"aborted 4"),
            marker(5, 7, ControlRecordType.ABORT),
            transactional(6, 7, b"committed 6"),
            marker(7, 8, ControlRecordType.COMMIT),
            marker(8, 7, ControlRecordType.COMMIT),
            transactional(9, 8, b"aborted 9"),
            marker(10, 8, ControlRecordType.ABORT),
        )
    )
    aborted = [(8, 9), (7, 0)]
    reader = twin.RecordReader(data, "t", 0, 0, aborted=aborted)
    assert values_of(reader, 2) == [b"committed 2", b"plain 3", b"committed 6"]
    assert reader.next_offset == 11
    assert len(values_of(twin.RecordReader(data, "t", 0, 0))) == 7
    assert len(values_of(twin.RecordReader(data, "t", 0, 0, aborted=[]))) == 7


def test_records_of_an_aborted_producer_that_are_not_transactional_stay(twin: ModuleType) -> None:
    data = batch(0, b"idempotent", producer_id=7, producer_epoch=0, base_sequence=0)
    assert values_of(twin.RecordReader(data, "t", 0, 0, aborted=[(7, 0)])) == [b"idempotent"]


def corrupted(change: Callable[[bytearray], object]) -> bytes:
    data = bytearray(batch(30, b"value"))
    change(data)
    return bytes(data)


def with_crc(data: bytearray) -> None:
    data[17:21] = record_batch.crc32c(data[21:]).to_bytes(4, "big")


def put(position: int, value: int, size: int = 4, *, crc: bool = True) -> Callable[[bytearray], object]:
    def change(data: bytearray) -> None:
        data[position : position + size] = value.to_bytes(size, "big", signed=True)
        if crc:
            with_crc(data)

    return change


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (put(65, 7, 1, crc=False), "checksum"),
        (put(8, 5, crc=False), "less than any batch"),
        (put(8, 30, crc=False), "less than"),
        (put(16, 9, 1), "magic"),
        (put(23, -1), "no batch has"),
        (put(57, -4), "no batch has"),
        (put(57, 2), "in the middle of a number"),
        (put(57, 0), "bytes follow"),
        (put(64, 20, 1), "not among those of its batch"),
        (put(0, -5, 8), "no batch has"),
        (put(0, INT64_MAX, 8), "no batch has"),
        (put(21, 7, 2), "no codec"),
        (put(21, 4, 2), "decompressed"),
    ],
)
def test_bad_bytes_are_named_with_their_place(
    twin: ModuleType, change: Callable[[bytearray], object], why: str
) -> None:
    good = batch(20, b"before")
    reader = twin.RecordReader(good + corrupted(change), "orders", 4, 0)
    taken = reader.take(1)
    assert [record.value for record in taken] == [b"before"]
    for _ in range(2):
        with pytest.raises(RecordCorrupt, match=why) as caught:
            values_of(reader)
        assert "orders-4: the batch at offset" in str(caught.value)
        assert f"byte {len(good)} " in str(caught.value)
        assert caught.value.code in (
            ErrorCode.CORRUPT_MESSAGE,
            ErrorCode.INVALID_RECORD,
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        )
        assert not caught.value.retriable
    assert not reader.exhausted


def test_records_before_bad_bytes_are_given_first(twin: ModuleType) -> None:
    reader = twin.RecordReader(batch(20, b"a") + corrupted(put(65, 7, 1, crc=False)), "t", 0, 0)
    assert [record.value for record in reader.take(10)] == [b"a"]
    assert reader.next_offset == 21
    with pytest.raises(RecordCorrupt):
        reader.take(10)
    with pytest.raises(RecordCorrupt):
        reader.take_columns(10, twin.ColumnBuilder())
    assert reader.next_offset == 21


def test_checksums_need_not_be_looked_at(twin: ModuleType) -> None:
    data = bytearray(batch(20, b"value"))
    data[17] ^= 1
    assert values_of(twin.RecordReader(data, "t", 0, 0, check_crcs=False)) == [b"value"]


def test_whatever_a_leader_accepts_can_be_read(twin: ModuleType) -> None:
    assert settings.ODRADEK_DECOMPRESSED_BYTES_MAX.parse("2147483647") == DECOMPRESSED_BYTES_MAX
    with pytest.raises(ValueError, match="INT"):
        settings.ODRADEK_DECOMPRESSED_BYTES_MAX.parse("2147483648")
    value = bytes(101 << 20)
    data = batch(0, value, compression=Compression.ZSTD)
    assert values_of(twin.RecordReader(data, "t", 0, 0)) == [value]


def test_what_decompresses_without_end_is_refused(twin: ModuleType) -> None:
    data = batch(0, bytes(200_000), compression=Compression.ZSTD)
    assert len(data) < 200
    with pytest.raises(RecordCorrupt, match="must decompress to <= 100000 bytes") as caught:
        twin.RecordReader(data, "t", 0, 0, decompressed_bytes_max=100_000).take(1)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_compressed_batches_are_opened_one_at_a_time(
    twin: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:

    opened: list[int] = []
    place = _codec if twin is _codec else record_reader
    original = place.decompress

    def counted(codec_id: int, data: Any, bytes_max: int) -> memoryview:
        opened.append(codec_id)
        return original(codec_id, data, bytes_max)

    monkeypatch.setattr(place, "decompress", counted)
    data = b"".join(batch(2 * n, b"a", b"b", compression=Compression.LZ4) for n in range(3))
    reader = twin.RecordReader(data, "t", 0, 0)
    assert opened == []
    reader.take(2)
    assert len(opened) == 1
    reader.take(1)
    assert len(opened) == 2


def test_two_readers_of_the_same_bytes_at_once_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What happens while the lock is let go, or while Python code runs: here, while a batch is opened."""
    refused: list[str] = []
    original = _codec.decompress

    def meanwhile(*arguments: Any) -> memoryview:
        for again in (lambda: reader.take(1), lambda: reader.take_columns(1, _codec.ColumnBuilder())):
            with pytest.raises(ConcurrentUse) as caught:
                again()
            refused.append(str(caught.value))
        return original(*arguments)

    monkeypatch.setattr(_codec, "decompress", meanwhile)
    reader = _codec.RecordReader(batch(0, b"a", compression=Compression.GZIP), "t", 0, 0)
    assert values_of(reader) == [b"a"]
    assert len(refused) == 2


def test_columns_of_several_partitions_are_gathered_in_one(twin: ModuleType) -> None:
    builder = BatchBuilder(5)
    builder.append(1, b"key", None, [("héader", b"x"), ("empty", None)])
    builder.append(2, None, b"value")
    gathered = twin.ColumnBuilder()
    for topic, partition in (("a", 0), ("b", 1), ("a", 2)):
        reader = twin.RecordReader(builder.build(), topic, partition, 0)
        assert reader.take_columns(10, gathered) == 2
        assert (reader.next_offset, reader.exhausted) == (7, True)
    columns = gathered.finish()
    assert (columns.row_count, columns.topics) == (6, ("a", "b"))
    assert memoryview(columns.topic_indices).cast("i").tolist() == [0, 0, 1, 1, 0, 0]
    assert memoryview(columns.partitions).cast("i").tolist() == [0, 0, 1, 1, 2, 2]
    assert memoryview(columns.offsets).cast("q").tolist() == [5, 6] * 3
    assert memoryview(columns.header_ends).cast("i").tolist() == [0, 2, 2, 4, 4, 6, 6]
    assert bytes(columns.header_names) == "héaderempty".encode() * 3
    assert bytes(columns.header_values) == b"xxx"
    assert bytes(columns.header_value_validity) == bytes([0b010101])
    assert gathered.row_count == 0
    assert gathered.finish().row_count == 0


def test_names_that_are_no_text_are_made_text_in_columns(twin: ModuleType) -> None:
    builder = BatchBuilder()
    builder.append(1, None, None, [("xx", b"v")])
    data = bytearray(builder.build().replace(b"xx", b"\xff\xfe"))
    gathered = twin.ColumnBuilder()
    twin.RecordReader(data, "t", 0, 0, check_crcs=False).take_columns(1, gathered)
    assert bytes(gathered.finish().header_names).decode() == "\ufffd\ufffd"


def test_headers_can_be_left_out_of_columns(twin: ModuleType) -> None:
    builder = BatchBuilder()
    builder.append(1, None, b"v", [("name", b"v")])
    gathered = twin.ColumnBuilder(POLL_COLUMNS & ~ColumnSet.HEADERS)
    twin.RecordReader(builder.build(), "t", 0, 0).take_columns(1, gathered)
    assert all(len(part) == 0 for part in gathered.finish()[13:])


def test_large_columns_are_right(twin: ModuleType) -> None:
    data = b"".join(batch(n * 300, *(b"%d" % v for v in range(300))) for n in range(5))
    gathered = twin.ColumnBuilder()
    twin.RecordReader(data, "t", 0, 0).take_columns(10_000, gathered)
    columns = gathered.finish()
    ends = memoryview(columns.value_ends).cast("i")
    values = bytes(columns.values)
    cells = [values[ends[n] : ends[n + 1]] for n in range(columns.row_count)]
    assert cells == [b"%d" % v for v in range(300)] * 5


def test_consumer_records_are_values(twin: ModuleType) -> None:
    record, same, other = (
        twin.ConsumerRecord("t", 1, offset, 9, TimestampType.CREATE_TIME, b"k", b"v", (), 3, 1, 1)
        for offset in (5, 5, 6)
    )
    assert record == same
    assert hash(record) == hash(same)
    assert record != other
    assert record != "t"
    assert pickle.loads(pickle.dumps(record)) == record
    changed = record.deserialized("key", {"a": 1})
    assert (changed.key, changed.value, changed.offset, changed.serialized_value_size) == (
        "key",
        {"a": 1},
        5,
        1,
    )
    match record:
        case twin.ConsumerRecord("t", 1, offset):
            assert offset == 5
        case _:
            raise AssertionError("a record has no positions")
