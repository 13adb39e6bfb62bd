"""Reading of fetched records: all formats, isolation levels, corrupt bytes."""

import pickle
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
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
from tests.support.record_codecs import COMPILED, IMPLEMENTATIONS, PURE

from odradek.config import broker as settings
from odradek.model.client_errors import ConcurrentUse, RecordCorrupt
from odradek.model.errors import ErrorCode
from odradek.model.protocol_enums import Compression, TimestampType
from odradek.records import codec
from odradek.records.batch import BatchBuilder, Record
from odradek.records.client import consumer as client_consumer
from odradek.records.compression import DECOMPRESSED_BYTES_MAX
from odradek.records.control_records import ControlRecordType
from odradek.records.layout import INT64_MAX, POLL_COLUMNS, ColumnSet
from odradek.records.message_set import write_message_set
from odradek.records.pure import record_reader as pure_record_reader

compiled_consumer: Any = import_module("odradek.records.compiled.consumer")

FIELDS = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
SIZES = ("leader_epoch", "serialized_key_size", "serialized_value_size")


@pytest.fixture(params=IMPLEMENTATIONS, ids=["compiled", "python"])
def implementation(request: pytest.FixtureRequest) -> SimpleNamespace:
    param: SimpleNamespace = request.param
    return param


def values_of(reader: Any, each: int = 100) -> list[Any]:
    values = []
    while records := reader.take(each):
        values += [record.value for record in records]
    return values


def fields_of(record: Any) -> tuple[Any, ...]:
    return tuple(getattr(record, name) for name in FIELDS + SIZES)


def steps(implementation: SimpleNamespace, data: bytes, sizes: list[int], **options: Any) -> list[Any]:
    """Results of a reader, call by call, until it ends or fails; as records and as columns."""
    observed: list[Any] = []
    for as_columns in (False, True):
        reader = implementation.RecordReader(data, "t", 2, 0, **options)
        for call in range(200):
            size = sizes[call % len(sizes)]
            try:
                if as_columns:
                    builder = implementation.ColumnBuilder()
                    count = reader.take_columns(size, builder)
                    result = [
                        bytes(part) if not isinstance(part, int | tuple) else part
                        for part in builder.finish()
                    ]
                else:
                    records = reader.take(size)
                    count = len(records)
                    result = [fields_of(record) for record in records]
            except RecordCorrupt as error:
                observed.append(("raises", error.code, reader.next_offset))
                with pytest.raises(RecordCorrupt):
                    reader.take(1)
                break
            assert count <= size
            observed.append(
                (result, reader.next_offset, reader.exhausted, reader.has_partial_batch, reader.leader_epoch)
            )
            if reader.exhausted or not count:
                break
        else:
            raise AssertionError("the reader does not terminate")
    return observed


sizes = st.lists(st.integers(1, 7), min_size=1, max_size=3)


@given(fetches(), sizes, aborted_lists)
def test_implementations_read_equal_records(data: bytes, each: list[int], aborted: Any) -> None:
    assert steps(COMPILED, data, each, aborted=aborted) == steps(PURE, data, each, aborted=aborted)


@given(fetches(), st.data(), sizes, st.booleans(), aborted_lists)
def test_damaged_bytes_have_equal_outcomes(
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
            broken[17:21] = PURE.crc32c(broken[21:size]).to_bytes(4, "big")
    options = {"aborted": aborted, "check_crcs": check, "decompressed_bytes_max": 100_000}
    assert steps(COMPILED, bytes(broken), each, **options) == steps(PURE, bytes(broken), each, **options)


@given(st.binary(max_size=200), sizes)
def test_random_bytes_have_equal_outcomes(data: bytes, each: list[int]) -> None:
    assert steps(COMPILED, data, each, check_crcs=False) == steps(PURE, data, each, check_crcs=False)


@given(fetches(), st.integers(0, 40))
def test_reader_returns_all_records_from_the_start_offset(data: bytes, start: int) -> None:
    expected = [
        record
        for header in codec.read_headers(data)
        if not header.is_control
        for record in codec.decode_batch(data, header)
        if record.offset >= start
    ]
    records = client_consumer.RecordReader(data, "t", 0, start).take(1000)
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in records] == [
        tuple(r) for r in expected
    ]


def test_record_has_partition_and_offset(implementation: SimpleNamespace) -> None:
    builder = BatchBuilder(50, leader_epoch=4, append_time_ms=777)
    builder.append(1, None, b"value", [("h", b"x")])
    (record,) = implementation.RecordReader(builder.build(), "orders", 3, 0).take(10)
    assert fields_of(record) == (
        "orders", 3, 50, 777, TimestampType.LOG_APPEND_TIME, None, b"value", (("h", b"x"),), 4, -1, 5
    )  # fmt: skip
    assert record.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert eval(f"dict({repr(record)[len('ConsumerRecord(') : -1]})")["offset"] == 50


def test_messages_of_magic_0_and_1(implementation: SimpleNamespace) -> None:
    oldest = write_message_set([Record(3, 9, b"k", b"v")], 0, Compression.GZIP)
    newer = write_message_set([Record(4, 9, None, None), Record(5, 9, b"", b"")], 1, Compression.SNAPPY, 55)
    reader = implementation.RecordReader(oldest + newer, "t", 0, 0)
    records = reader.take(10)
    assert [(r.offset, r.timestamp, r.timestamp_type) for r in records] == [
        (3, -1, None),
        (4, 55, TimestampType.LOG_APPEND_TIME),
        (5, 55, TimestampType.LOG_APPEND_TIME),
    ]
    assert [(r.key, r.serialized_key_size) for r in records] == [(b"k", 1), (None, -1), (b"", 0)]
    assert reader.exhausted
    assert reader.next_offset == 6


def test_records_before_the_start_offset_are_skipped(implementation: SimpleNamespace) -> None:
    data = batch(10, b"a", b"b", b"c") + batch(13, b"d")
    assert values_of(implementation.RecordReader(data, "t", 0, 12)) == [b"c", b"d"]
    assert values_of(implementation.RecordReader(data, "t", 0, 13)) == [b"d"]
    old = write_message_set([Record(i, 1, None, b"%d" % i) for i in range(4)], 1, Compression.GZIP)
    assert values_of(implementation.RecordReader(old, "t", 0, 2)) == [b"2", b"3"]


def test_take_in_portions_advances_next_offset(implementation: SimpleNamespace) -> None:
    reader = implementation.RecordReader(batch(10, b"a", b"b", b"c") + batch(20, b"d"), "t", 0, 0)
    assert (reader.next_offset, reader.exhausted) == (0, False)
    assert [r.value for r in reader.take(2)] == [b"a", b"b"]
    assert (reader.next_offset, reader.exhausted) == (12, False)
    assert reader.take(0) == []
    assert [r.value for r in reader.take(2)] == [b"c", b"d"]
    assert (reader.next_offset, reader.exhausted, reader.has_partial_batch, reader.bytes_left) == (
        21,
        True,
        False,
        0,
    )
    assert reader.take(5) == []


def test_next_offset_passes_compacted_offset_ranges(implementation: SimpleNamespace) -> None:
    builder = BatchBuilder(5)
    builder.append(1, b"k", b"v")
    reader = implementation.RecordReader(builder.build(last_offset=30), "t", 0, 0)
    assert len(reader.take(10)) == 1
    assert reader.next_offset == 31
    empty = implementation.RecordReader(BatchBuilder(40).build(last_offset=44), "t", 0, 40)
    assert empty.take(10) == []
    assert empty.next_offset == 45


def test_partial_batch_is_left_for_the_next_fetch(implementation: SimpleNamespace) -> None:
    whole = batch(0, b"a")
    for kept in (1, 11, 16, 17, 60, len(whole) - 1):
        reader = implementation.RecordReader(whole + batch(1, b"b")[:kept], "t", 0, 0)
        assert values_of(reader) == [b"a"]
        assert (reader.exhausted, reader.has_partial_batch, reader.next_offset) == (True, True, 1)
    nothing = implementation.RecordReader(b"", "t", 0, 7)
    assert (nothing.exhausted, nothing.has_partial_batch, nothing.next_offset) == (True, False, 7)


def end_of(implementation: SimpleNamespace, data: bytes) -> int | None:
    end: int | None = implementation.RecordReader(data, "t", 0, 0).end_offset()
    return end


def test_end_offset_is_after_the_last_complete_batch(implementation: SimpleNamespace) -> None:
    first, second = batch(5, b"a", b"b"), BatchBuilder(7)
    second.append(1, b"k", b"v")
    later = second.build(last_offset=14)
    assert end_of(implementation, first) == 7
    assert end_of(implementation, first + later) == 15
    assert end_of(implementation, first + later[:-1]) == 7
    assert end_of(implementation, first + later[:20]) == 7
    assert end_of(implementation, b"") is None
    assert end_of(implementation, later[:-1]) is None


def test_end_offset_is_none_for_too_many_batches_and_messages(implementation: SimpleNamespace) -> None:
    assert end_of(implementation, batch(0, b"a") * 1023) == 1
    assert end_of(implementation, batch(0, b"a") * 1024) is None
    assert end_of(implementation, write_message_set([Record(0, 1, None, b"a")], 1, Compression.NONE)) is None


@given(fetches() | st.binary(min_size=1, max_size=200), st.data())
def test_implementations_have_equal_end_offsets(data: bytes, chosen: st.DataObject) -> None:
    damaged = bytearray(data)
    for _ in range(chosen.draw(st.integers(0, 2))):
        damaged[chosen.draw(st.integers(0, len(data) - 1))] ^= chosen.draw(st.integers(1, 255))
    assert end_of(COMPILED, bytes(damaged)) == end_of(PURE, bytes(damaged))


def test_fetch_buffer_has_the_requested_size(implementation: SimpleNamespace) -> None:
    assert [len(implementation.allocate_fetch_buffer(size)) for size in (0, 1, 1_000_000)] == [
        0,
        1,
        1_000_000,
    ]
    with pytest.raises(ValueError, match=r"negative count|size must be >= 0"):
        implementation.allocate_fetch_buffer(-1)


@given(st.lists(st.tuples(st.integers(60_000, 300_000), st.integers(0, 5)), min_size=5, max_size=40))
def test_fetch_buffer_is_not_reused_while_a_view_of_it_exists(asked: list[tuple[int, int]]) -> None:
    """Buffers are reused only after their last view is gone."""
    held: list[tuple[memoryview, int]] = []
    for number, (size, kept) in enumerate(asked):
        buffer = COMPILED.allocate_fetch_buffer(size)
        assert len(buffer) == size
        mark = number % 251 + 1
        buffer[:] = bytes([mark]) * size
        held.append((buffer[size // 2 :], mark))
        del buffer
        while len(held) > kept:
            view, made = held.pop(0)
            assert view.tobytes() == bytes([made]) * len(view)
            del view


def test_read_committed_skips_aborted_transactions(implementation: SimpleNamespace) -> None:
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
    reader = implementation.RecordReader(data, "t", 0, 0, aborted=aborted)
    assert values_of(reader, 2) == [b"committed 2", b"plain 3", b"committed 6"]
    assert reader.next_offset == 11
    assert len(values_of(implementation.RecordReader(data, "t", 0, 0))) == 7
    assert len(values_of(implementation.RecordReader(data, "t", 0, 0, aborted=[]))) == 7


def test_non_transactional_records_of_an_aborted_producer_are_returned(
    implementation: SimpleNamespace,
) -> None:
    data = batch(0, b"idempotent", producer_id=7, producer_epoch=0, base_sequence=0)
    assert values_of(implementation.RecordReader(data, "t", 0, 0, aborted=[(7, 0)])) == [b"idempotent"]


def corrupted(change: Callable[[bytearray], object]) -> bytes:
    data = bytearray(batch(30, b"value"))
    change(data)
    return bytes(data)


def with_crc(data: bytearray) -> None:
    data[17:21] = PURE.crc32c(data[21:]).to_bytes(4, "big")


def put(position: int, value: int, size: int = 4, *, crc: bool = True) -> Callable[[bytearray], object]:
    def change(data: bytearray) -> None:
        data[position : position + size] = value.to_bytes(size, "big", signed=True)
        if crc:
            with_crc(data)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put(65, 7, 1, crc=False), "CRC"),
        (put(8, 5, crc=False), "size must be >= 14"),
        (put(8, 30, crc=False), "must be >= 49"),
        (put(16, 9, 1), "magic"),
        (put(23, -1), "invalid header"),
        (put(57, -4), "invalid header"),
        (put(57, 2), "within a varint"),
        (put(57, 0), "trailing bytes"),
        (put(64, 20, 1), "outside the range of its batch"),
        (put(0, -5, 8), "invalid header"),
        (put(0, INT64_MAX, 8), "invalid header"),
        (put(21, 7, 2), "unknown compression codec"),
        (put(21, 4, 2), "decompressed"),
    ],
)
def test_corrupt_batch_error_has_offset_and_position(
    implementation: SimpleNamespace, change: Callable[[bytearray], object], message: str
) -> None:
    good = batch(20, b"before")
    reader = implementation.RecordReader(good + corrupted(change), "orders", 4, 0)
    records = reader.take(1)
    assert [record.value for record in records] == [b"before"]
    for _ in range(2):
        with pytest.raises(RecordCorrupt, match=message) as caught:
            values_of(reader)
        assert "orders-4: batch at offset" in str(caught.value)
        assert f"byte {len(good)} " in str(caught.value)
        assert caught.value.code in (
            ErrorCode.CORRUPT_MESSAGE,
            ErrorCode.INVALID_RECORD,
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        )
        assert not caught.value.retriable
    assert not reader.exhausted


def test_records_before_corrupt_bytes_are_returned_first(implementation: SimpleNamespace) -> None:
    reader = implementation.RecordReader(batch(20, b"a") + corrupted(put(65, 7, 1, crc=False)), "t", 0, 0)
    assert [record.value for record in reader.take(10)] == [b"a"]
    assert reader.next_offset == 21
    with pytest.raises(RecordCorrupt):
        reader.take(10)
    with pytest.raises(RecordCorrupt):
        reader.take_columns(10, implementation.ColumnBuilder())
    assert reader.next_offset == 21


def test_crc_check_can_be_disabled(implementation: SimpleNamespace) -> None:
    data = bytearray(batch(20, b"value"))
    data[17] ^= 1
    assert values_of(implementation.RecordReader(data, "t", 0, 0, check_crcs=False)) == [b"value"]


def test_every_batch_a_leader_accepts_can_be_read(implementation: SimpleNamespace) -> None:
    assert settings.ODRADEK_DECOMPRESSED_BYTES_MAX.parse("2147483647") == DECOMPRESSED_BYTES_MAX
    with pytest.raises(ValueError, match="32 bits"):
        settings.ODRADEK_DECOMPRESSED_BYTES_MAX.parse("2147483648")
    value = bytes(101 << 20)
    data = batch(0, value, compression=Compression.ZSTD)
    assert values_of(implementation.RecordReader(data, "t", 0, 0)) == [value]


def test_decompression_limit(implementation: SimpleNamespace) -> None:
    data = batch(0, bytes(200_000), compression=Compression.ZSTD)
    assert len(data) < 200
    with pytest.raises(RecordCorrupt, match="must decompress to <= 100000 bytes") as caught:
        implementation.RecordReader(data, "t", 0, 0, decompressed_bytes_max=100_000).take(1)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_compressed_batches_are_decompressed_one_at_a_time(
    implementation: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[int] = []
    module = compiled_consumer if implementation is COMPILED else pure_record_reader
    original = module.decompress

    def counted(codec_id: int, data: Any, bytes_max: int) -> memoryview:
        opened.append(codec_id)
        return original(codec_id, data, bytes_max)

    monkeypatch.setattr(module, "decompress", counted)
    data = b"".join(batch(2 * n, b"a", b"b", compression=Compression.LZ4) for n in range(3))
    reader = implementation.RecordReader(data, "t", 0, 0)
    assert opened == []
    reader.take(2)
    assert len(opened) == 1
    reader.take(1)
    assert len(opened) == 2


def test_concurrent_use_of_a_reader_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second call comes while Python code runs in the first: during decompression."""
    errors: list[str] = []
    original = compiled_consumer.decompress

    def meanwhile(*arguments: Any) -> memoryview:
        for again in (lambda: reader.take(1), lambda: reader.take_columns(1, COMPILED.ColumnBuilder())):
            with pytest.raises(ConcurrentUse) as caught:
                again()
            errors.append(str(caught.value))
        return original(*arguments)

    monkeypatch.setattr(compiled_consumer, "decompress", meanwhile)
    reader = COMPILED.RecordReader(batch(0, b"a", compression=Compression.GZIP), "t", 0, 0)
    assert values_of(reader) == [b"a"]
    assert len(errors) == 2


def test_columns_of_several_partitions(implementation: SimpleNamespace) -> None:
    builder = BatchBuilder(5)
    builder.append(1, b"key", None, [("héader", b"x"), ("empty", None)])
    builder.append(2, None, b"value")
    gathered = implementation.ColumnBuilder()
    for topic, partition in (("a", 0), ("b", 1), ("a", 2)):
        reader = implementation.RecordReader(builder.build(), topic, partition, 0)
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


def test_invalid_utf8_in_header_names_of_columns_is_replaced(implementation: SimpleNamespace) -> None:
    builder = BatchBuilder()
    builder.append(1, None, None, [("xx", b"v")])
    data = bytearray(builder.build().replace(b"xx", b"\xff\xfe"))
    gathered = implementation.ColumnBuilder()
    implementation.RecordReader(data, "t", 0, 0, check_crcs=False).take_columns(1, gathered)
    assert bytes(gathered.finish().header_names).decode() == "\ufffd\ufffd"


def test_columns_without_headers(implementation: SimpleNamespace) -> None:
    builder = BatchBuilder()
    builder.append(1, None, b"v", [("name", b"v")])
    gathered = implementation.ColumnBuilder(POLL_COLUMNS & ~ColumnSet.HEADERS)
    implementation.RecordReader(builder.build(), "t", 0, 0).take_columns(1, gathered)
    assert all(len(part) == 0 for part in gathered.finish()[13:])


def test_large_columns(implementation: SimpleNamespace) -> None:
    data = b"".join(batch(n * 300, *(b"%d" % v for v in range(300))) for n in range(5))
    gathered = implementation.ColumnBuilder()
    implementation.RecordReader(data, "t", 0, 0).take_columns(10_000, gathered)
    columns = gathered.finish()
    ends = memoryview(columns.value_ends).cast("i")
    values = bytes(columns.values)
    cells = [values[ends[n] : ends[n + 1]] for n in range(columns.row_count)]
    assert cells == [b"%d" % v for v in range(300)] * 5


def test_consumer_record_equality_hash_and_pickle(implementation: SimpleNamespace) -> None:
    record, same, other = (
        implementation.ConsumerRecord("t", 1, offset, 9, TimestampType.CREATE_TIME, b"k", b"v", (), 3, 1, 1)
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
        case implementation.ConsumerRecord("t", 1, offset):
            assert offset == 5
        case _:
            raise AssertionError("a record has no positions")
