"""RecordAppender: appends to open batches, or calls the fallback."""

import threading
from array import array
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.partitioner import murmur2 as aiokafka_murmur2
from hypothesis import given
from hypothesis import strategies as st
from tests.support.record_codecs import COMPILED, IMPLEMENTATIONS, PURE

from odradek.records import codec
from odradek.records.client import producer as client_producer

NOW = 1_700_000_000_000


@pytest.fixture(params=IMPLEMENTATIONS, ids=["compiled", "python"])
def implementation(request: pytest.FixtureRequest) -> SimpleNamespace:
    param: SimpleNamespace = request.param
    return param


class Fallback:
    """Records its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __call__(self, *arguments: Any) -> str:
        self.calls.append(arguments)
        return "fallback"


def opened(
    implementation: SimpleNamespace, partitions: int = 3, *, capacity: int = 4096, **options: Any
) -> tuple[Any, Fallback, list[Any]]:
    fallback = Fallback()
    appender = implementation.RecordAppender(fallback, lambda: NOW, **options)
    appender.set_topic("t", partitions)
    batches = [implementation.ProducerBatch("t", partition, capacity, NOW) for partition in range(partitions)]
    for batch in batches:
        appender.set_open_batch(batch)
    appender.set_sticky("t", 1)
    return appender, fallback, batches


def decoded(batch: Any) -> list[Any]:
    return codec.decode(batch.finish(0, -1, -1, -1)) if batch.count else []


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"", 275646681),
    ],
)
def test_murmur2_equals_kafkas_java_client(implementation: SimpleNamespace, key: bytes, hashed: int) -> None:
    assert implementation.murmur2(key) == hashed
    assert implementation.partition_for_key(key, 7) == (hashed & 0x7FFFFFFF) % 7


@given(st.binary(max_size=40))
def test_murmur2_equals_aiokafka(key: bytes) -> None:
    assert COMPILED.murmur2(key) == PURE.murmur2(key)
    assert COMPILED.murmur2(memoryview(key)) & 0xFFFFFFFF == aiokafka_murmur2(key) & 0xFFFFFFFF


def test_partition_count_must_be_positive(implementation: SimpleNamespace) -> None:
    with pytest.raises(ValueError, match="partition"):
        implementation.partition_for_key(b"key", 0)


def test_partition_is_explicit_or_by_key_or_sticky(implementation: SimpleNamespace) -> None:
    appender, fallback, batches = opened(implementation)
    assert appender.send("t", b"given", b"21", None, 2).partition == 2
    assert appender.send("t", b"keyed", b"21").partition == implementation.partition_for_key(b"21", 3)
    assert appender.send("t", b"sticky").partition == 1
    assert appender.send("t", value=b"named", headers=[("h", b"x")], timestamp_ms=5).timestamp == 5
    assert fallback.calls == []
    records = [record for batch in batches for record in decoded(batch)]
    assert {record.value for record in records} == {b"given", b"keyed", b"sticky", b"named"}
    assert {record.timestamp for record in records} == {NOW, 5}
    assert [record.headers for record in records if record.value == b"named"] == [(("h", b"x"),)]


def test_default_clock_of_the_compiled_appender_is_the_systems() -> None:
    appender = COMPILED.RecordAppender(Fallback())
    appender.set_topic("t", 1)
    appender.set_open_batch(COMPILED.ProducerBatch("t", 0, 1000, 0))
    assert appender.send("t", b"v", partition=0).timestamp > NOW


def test_pure_appender_requires_a_clock() -> None:
    with pytest.raises(ValueError, match="wall_ms must be a clock, got None"):
        PURE.RecordAppender(Fallback())


@pytest.mark.parametrize(
    "arguments",
    [
        ("other", b"v", None, None, 0, None, None),
        (b"t", b"v", None, None, 0, None, None),
        ("t", "text", None, None, 0, None, None),
        ("t", b"v", "text", None, 0, None, None),
        ("t", bytearray(b"v"), None, None, 0, None, None),
        ("t", b"v", None, {"h": b"x"}, 0, None, None),
        ("t", b"v", None, [("h", "text")], 0, None, None),
        ("t", b"v", None, [(1, b"x")], 0, None, None),
        ("t", b"v", None, [("h",)], 0, None, None),
        ("t", b"v", None, None, 3, None, None),
        ("t", b"v", None, None, -1, None, None),
        ("t", b"v", None, None, 2**70, None, None),
        ("t", b"v", None, None, "0", None, None),
        ("t", b"v", None, None, 0, -1, None),
        ("t", b"v", None, None, 0, 2**63, None),
        ("t", b"v", None, None, 0, 1.5, None),
        ("t", bytes(5000), None, None, 0, None, print),
    ],
)
def test_other_arguments_go_to_the_fallback_unchanged(
    implementation: SimpleNamespace, arguments: tuple[Any, ...]
) -> None:
    appender, fallback, batches = opened(implementation)
    batches[0].append(1, None, b"first", None)
    assert appender.send(*arguments) == "fallback"
    assert fallback.calls == [arguments]
    assert [batch.count for batch in batches] == [1, 0, 0]


def test_closed_batches_and_paused_appender_use_the_fallback(implementation: SimpleNamespace) -> None:
    appender, fallback, batches = opened(implementation)
    batches[0].seal()
    appender.clear_open_batch("t", 2)
    appender.clear_open_batch("t", 9)
    assert appender.send("t", b"v", partition=0) == appender.send("t", b"v", partition=2) == "fallback"
    appender.set_sticky("t", -1)
    assert appender.send("t", b"v") == "fallback"
    appender.paused = True
    assert appender.send("t", b"v", partition=1) == "fallback"
    appender.paused = False
    assert appender.send("t", b"v", partition=1) != "fallback"
    appender.forget_topic("t")
    appender.forget_topic("t")
    assert appender.open_batch("t", 1) is None
    assert len(fallback.calls) == 4


def test_set_topic_keeps_open_batches(implementation: SimpleNamespace) -> None:
    appender, _, batches = opened(implementation)
    appender.set_topic("t", 5)
    assert appender.open_batch("t", 2) is batches[2]
    assert appender.open_batch("t", 4) is None
    assert appender.sticky("t") == 1
    appender.set_topic("t", 1)
    assert appender.sticky("t") == -1
    with pytest.raises(ValueError, match="partition of t must be"):
        appender.set_open_batch(batches[2])
    with pytest.raises(ValueError, match="partition of t must be"):
        appender.set_sticky("t", 1)
    with pytest.raises(ValueError, match="partition_count must be >= 0"):
        appender.set_topic("t", -1)
    with pytest.raises(KeyError):
        appender.sticky("unknown")
    appender.set_topic("t", 0)
    assert appender.send("t", b"v", b"key") == "fallback"


def test_sticky_bytes(implementation: SimpleNamespace) -> None:
    appender, _, batches = opened(implementation)
    appender.send("t", b"keyed", b"21")
    appender.send("t", b"given", None, None, 1)
    before = batches[1].size_bytes
    assert appender.sticky_bytes("t") == 0
    appender.send("t", b"sticky")
    appender.send_many("t", [b"a", b"b"])
    assert appender.sticky_bytes("t") == batches[1].size_bytes - before
    appender.add_sticky_bytes("t", 1000)
    assert appender.sticky_bytes("t") == batches[1].size_bytes - before + 1000
    appender.set_sticky("t", 2)
    assert appender.sticky_bytes("t") == 0


def test_sticky_schedule_advances_by_bytes(implementation: SimpleNamespace) -> None:
    appender, fallback, batches = opened(implementation)
    appender.set_sticky_schedule("t", [2, 2, 0], 250)
    for _ in range(12):
        appender.send("t", bytes(90))
    assert [batch.count for batch in batches] == [3, 3, 6]
    assert appender.sticky("t") == 0
    # The last scheduled partition stays sticky.
    for _ in range(6):
        appender.send("t", bytes(90))
    assert batches[0].count == 9
    assert appender.advance_sticky("t") == -1
    assert fallback.calls == []


@pytest.mark.parametrize("call", ["send_many", "append_columns"])
def test_sticky_schedule_advances_within_a_call(implementation: SimpleNamespace, call: str) -> None:
    appender, _, batches = opened(implementation)
    appender.set_sticky_schedule("t", [2, 1], 250)
    values = [bytes(90)] * 9
    if call == "send_many":
        done, ranges = appender.send_many("t", values)
    else:
        ends = array("i", range(0, 90 * 10, 90))
        column = implementation.BytesColumn(9, 0, None, ends, b"".join(values))
        done, ranges = appender.append_columns("t", implementation.RecordColumns(9, column), None, 0, 9)
    assert done == 9
    assert ranges == [(batches[1], 0, 6), (batches[2], 0, 3)]


def test_advance_sticky_and_reset(implementation: SimpleNamespace) -> None:
    appender, _, _ = opened(implementation)
    appender.set_sticky_schedule("t", [2, 0], 250)
    appender.send("t", b"v")
    assert appender.advance_sticky("t") == 2
    assert (appender.sticky("t"), appender.sticky_bytes("t")) == (2, 0)
    appender.set_sticky("t", 1)
    assert appender.advance_sticky("t") == -1
    appender.set_sticky_schedule("t", [0] * 40, 250)
    turns = 0
    while appender.advance_sticky("t") == 0:
        turns += 1
    assert turns == 16, "no more are remembered"
    appender.set_sticky_schedule("t", [2], 250)
    appender.set_topic("t", 2)
    assert appender.advance_sticky("t") == -1, "the partition may be gone"
    for number in (2, -1):
        with pytest.raises(ValueError, match="partition of t must be"):
            appender.set_sticky_schedule("t", [number], 250)


def test_ignore_keys_and_explicit_partitions_only(implementation: SimpleNamespace) -> None:
    appender, _, _ = opened(implementation, ignore_keys=True)
    assert {appender.send("t", b"v", b"key %d" % n).partition for n in range(20)} == {1}
    explicit_only, fallback, _ = opened(implementation, explicit_partitions_only=True)
    assert explicit_only.send("t", b"v", b"key") == explicit_only.send("t", b"v") == "fallback"
    assert explicit_only.send("t", b"v", b"key", None, 2).partition == 2
    assert len(fallback.calls) == 2


def test_send_callbacks_are_called(implementation: SimpleNamespace) -> None:
    appender, _, batches = opened(implementation)
    seen: list[Any] = []
    appender.send("t", b"v", on_delivery=lambda metadata, error: seen.append((metadata.offset, error)))
    batches[1].complete(30)
    assert seen == [(30, None)]


def test_clock_error_appends_nothing(implementation: SimpleNamespace) -> None:
    def broken() -> int:
        raise OSError("no clock")

    appender = implementation.RecordAppender(Fallback(), broken)
    appender.set_topic("t", 1)
    batch = implementation.ProducerBatch("t", 0, 1000, 0)
    appender.set_open_batch(batch)
    with pytest.raises(OSError, match="no clock"):
        appender.send("t", b"v", partition=0)
    assert batch.count == 0


values = st.lists(st.none() | st.binary(max_size=30) | st.just("text"), max_size=25)


@given(values, st.data())
def test_send_many_equals_single_sends_up_to_the_first_fallback(
    record_values: list[Any], data: st.DataObject
) -> None:
    size = len(record_values)
    keys = data.draw(st.none() | st.lists(st.none() | st.binary(max_size=6), min_size=size, max_size=size))
    partition = data.draw(st.sampled_from([None, None, 0, 7]))
    start = data.draw(st.integers(0, size))
    capacity = data.draw(st.sampled_from([150, 4096]))
    seen = []
    for implementation in IMPLEMENTATIONS:
        appender, fallback, batches = opened(implementation, capacity=capacity)
        batches[0].append(1, None, b"before", None)
        before = [batch.count for batch in batches]
        stopped, ranges = appender.send_many("t", record_values, keys, partition, 77, start)
        single, fallback, expected = opened(implementation, capacity=capacity)
        expected[0].append(1, None, b"before", None)
        for index in range(start, stopped):
            assert (
                single.send("t", record_values[index], keys and keys[index], None, partition, 77)
                != "fallback"
            )
        if stopped < size:
            assert (
                single.send("t", record_values[stopped], keys and keys[stopped], None, partition, 77)
                == "fallback"
            )
        assert [bytes(b.plain_records()) for b in batches] == [bytes(b.plain_records()) for b in expected]
        assert appender.sticky_bytes("t") == single.sticky_bytes("t")
        assert fallback.calls == fallback.calls[:1]
        for batch, first, count in ranges:
            assert (first, first + count) == (before[batch.partition], batch.count)
        assert sum(count for _, _, count in ranges) == stopped - start
        seen.append((stopped, [(b.partition, first, count) for b, first, count in ranges]))
    assert seen[0] == seen[1]


def test_send_many_argument_checks(implementation: SimpleNamespace) -> None:
    appender, _, _ = opened(implementation)
    with pytest.raises(ValueError, match="keys"):
        appender.send_many("t", [b"a"], [])
    with pytest.raises(ValueError, match="start"):
        appender.send_many("t", [b"a"], None, None, None, -1)
    assert appender.send_many("unknown", [b"a"]) == (0, [])
    assert appender.send_many("t", (b"a",), timestamp_ms=-5) == (0, [])


def test_concurrent_sends_and_seals_lose_no_records() -> None:
    """Four threads send while batches are sealed: every record once, in the order of its thread."""
    appended: list[Any] = []
    lock = threading.Lock()

    def fallback(topic: str, value: bytes, key: bytes | None, *rest: Any) -> Any:
        with lock:
            batch = appender.open_batch(topic, 0)
            delivery = None if batch is None else batch.append(5, key, value, None)
            while delivery is None:
                batch = COMPILED.ProducerBatch(topic, 0, 4096, 0)
                delivery = batch.append(5, key, value, None)
                appended.append(batch)
                appender.set_open_batch(batch)
            return delivery

    appender = COMPILED.RecordAppender(fallback)
    appender.set_topic("t", 1)
    appender.set_sticky("t", 0)

    def send(name: int) -> None:
        for number in range(5_000):
            appender.send("t", b"%d %d" % (name, number), None, [("h", b"x")])

    threads = [threading.Thread(target=send, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        with lock:
            batch = appender.open_batch("t", 0)
            if batch is not None:
                batch.seal()
    for thread in threads:
        thread.join()
    numbers_by_thread: dict[int, list[int]] = {}
    for batch in appended:
        for record in codec.decode(batch.finish(0, -1, -1, -1)):
            assert record.value is not None
            name, number = map(int, record.value.split())
            numbers_by_thread.setdefault(name, []).append(number)
    assert numbers_by_thread == {name: list(range(5_000)) for name in range(4)}


# ---- columns ----


def bytes_column(
    implementation: SimpleNamespace, cells: list[bytes | None], *, wide: bool = False, offset: int = 0
) -> Any:
    ends, content, validity = array("q" if wide else "i", [0]), b"", bytearray((len(cells) + 7) // 8)
    for index, cell in enumerate(cells):
        content += cell or b""
        ends.append(len(content))
        validity[index >> 3] |= (cell is not None) << (index & 7)
    return implementation.BytesColumn(
        len(cells) - offset, offset, bytes(validity), ends.tobytes(), content, wide
    )


cells = st.none() | st.binary(max_size=20)
rows = st.lists(
    st.tuples(
        cells,
        cells,
        st.none() | st.integers(0, 2**40),
        st.lists(st.tuples(st.text(max_size=4), cells), max_size=2),
    ),
    min_size=1,
    max_size=20,
)


def columns_of(implementation: SimpleNamespace, source_rows: list[Any], wide: bool, offset: int) -> Any:
    names = [name.encode() for row in source_rows for name, _ in row[3]]
    header_values = [value for row in source_rows for _, value in row[3]]
    ends = array("q" if wide else "i", [0])
    for row in source_rows:
        ends.append(ends[-1] + len(row[3]))
    count = len(source_rows) - offset
    times = array("q", [row[2] or 0 for row in source_rows]).tobytes()
    validity = bytearray((len(source_rows) + 7) // 8)
    for index, row in enumerate(source_rows):
        validity[index >> 3] |= (row[2] is not None) << (index & 7)
    return implementation.RecordColumns(
        count,
        bytes_column(implementation, [row[0] for row in source_rows], wide=wide, offset=offset),
        bytes_column(implementation, [row[1] for row in source_rows], wide=wide, offset=offset),
        implementation.NumbersColumn(count, offset, validity, times, 8),
        implementation.HeadersColumn(
            count,
            offset,
            None,
            ends.tobytes(),
            bytes_column(implementation, names),
            bytes_column(implementation, header_values),
            wide,
        ),
    )


@given(rows, st.booleans(), st.data())
def test_append_columns_encodes_rows(source_rows: list[Any], wide: bool, data: st.DataObject) -> None:
    offset = data.draw(st.integers(0, len(source_rows) - 1))
    start = data.draw(st.integers(0, len(source_rows) - offset))
    capacity = data.draw(st.sampled_from([150, 1 << 20]))
    expected_rows = source_rows[offset:]
    seen = []
    for implementation in IMPLEMENTATIONS:
        columns = columns_of(implementation, source_rows, wide, offset)
        batch = implementation.ProducerBatch("t", 0, capacity, 0)
        appended = batch.append_columns(columns, start, len(expected_rows), NOW)
        assert appended == len(expected_rows) - start or capacity == 150
        assert [(r.value, r.key, r.timestamp, list(r.headers)) for r in decoded(batch)] == [
            (value, key, NOW if time is None else time, list(pairs))
            for value, key, time, pairs in expected_rows[start : start + appended]
        ]
        for index, (value, key, time, pairs) in enumerate(expected_rows):
            assert columns.row(index) == (time, key, value, tuple(pairs))
        seen.append((appended, bytes(batch.plain_records())))
    assert seen[0] == seen[1]


@given(rows, st.data())
def test_append_columns_stops_at_the_first_full_batch(source_rows: list[Any], data: st.DataObject) -> None:
    capacity = data.draw(st.sampled_from([150, 1 << 20]))
    given_partitions = data.draw(st.none() | st.lists(st.integers(-1, 3), min_size=20, max_size=20))
    seen = []
    for implementation in IMPLEMENTATIONS:
        columns = columns_of(implementation, source_rows, False, 0)
        appender, _, batches = opened(implementation, capacity=capacity)
        partitions = None if given_partitions is None else array("i", given_partitions).tobytes()
        stopped, ranges = appender.append_columns("t", columns, partitions, 0, len(source_rows))
        assert sum(count for _, _, count in ranges) == stopped
        if stopped < len(source_rows):
            partition = -1 if given_partitions is None else given_partitions[stopped]
            full = 1 if partition < 0 else partition
            assert full == 3 or batches[full].count
        seen.append(
            (
                stopped,
                appender.sticky_bytes("t"),
                [(batch.partition, first, count) for batch, first, count in ranges],
                [bytes(batch.plain_records()) for batch in batches],
            )
        )
    assert seen[0] == seen[1]


@given(
    st.lists(st.tuples(cells, st.none() | st.integers(-(2**31), 2**31 - 1)), min_size=1, max_size=20),
    st.integers(1, 50),
    st.booleans(),
)
def test_partitions_for_keys(source_rows: list[Any], count: int, ignore: bool) -> None:
    seen = []
    for implementation in IMPLEMENTATIONS:
        keys = bytes_column(implementation, [key for key, _ in source_rows])
        validity = bytearray((len(source_rows) + 7) // 8)
        for index, (_, number) in enumerate(source_rows):
            validity[index >> 3] |= (number is not None) << (index & 7)
        numbers = array("i", [number or 0 for _, number in source_rows]).tobytes()
        explicit_partitions = implementation.NumbersColumn(len(source_rows), 0, validity, numbers, 4)
        seen.append(
            [
                memoryview(implementation.partitions_for_keys(keys, count, None, ignore)).cast("i").tolist(),
                memoryview(implementation.partitions_for_keys(keys, count, explicit_partitions, ignore))
                .cast("i")
                .tolist(),
                memoryview(implementation.partitions_for_keys(None, count, explicit_partitions))
                .cast("i")
                .tolist(),
            ]
        )
    assert seen[0] == seen[1]
    assert seen[0][0] == [
        -1 if key is None or ignore else client_producer.partition_for_key(key, count)
        for key, _ in source_rows
    ]
    assert all(
        partition == (number if number >= 0 else 2**31 - 1)
        for partition, (_, number) in zip(seen[0][2], source_rows, strict=True)
        if number is not None
    )


def ints(*numbers: int) -> bytes:
    return array("i", numbers).tobytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((2, 0, None, ints(0, 1), b"abc"), "one offset more"),
        ((1, 1, None, ints(0, 1), b"abc"), "one offset more"),
        ((1, 0, None, ints(0, 4), b"abc"), "must not decrease"),
        ((2, 0, None, ints(0, 2, 1), b"abc"), "must not decrease"),
        ((1, 0, None, ints(-1, 1), b"abc"), "must not decrease"),
        ((9, 0, b"\xff", ints(*range(10)), bytes(20)), "validity"),
        ((-1, 0, None, ints(0), b""), "must be >= 0"),
        ((1, 0, None, array("q", [0, 2**40]).tobytes(), b"", True), "must not decrease"),
    ],
)
def test_columns_beyond_their_buffers_are_rejected(
    implementation: SimpleNamespace, arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        implementation.BytesColumn(*arguments)


def test_inconsistent_columns_are_rejected(implementation: SimpleNamespace) -> None:
    short = bytes_column(implementation, [b"a"])
    with pytest.raises(ValueError, match="must not be shorter"):
        implementation.RecordColumns(2, short)
    with pytest.raises(ValueError, match="a number per row"):
        implementation.NumbersColumn(2, 0, None, bytes(8), 8)
    with pytest.raises(ValueError, match="width 4 or 8"):
        implementation.NumbersColumn(1, 0, None, bytes(8), 2)
    with pytest.raises(ValueError, match="validity"):
        implementation.NumbersColumn(9, 0, b"\xff", bytes(80), 8)
    with pytest.raises(ValueError, match="must not decrease"):
        implementation.HeadersColumn(1, 0, None, ints(0, 2), short, short)
    with pytest.raises(ValueError, match="one offset more"):
        implementation.HeadersColumn(2, 0, None, ints(0, 1), short, short)
    with pytest.raises(ValueError, match="length and offset must be >= 0"):
        implementation.HeadersColumn(-1, 0, None, ints(0, 1), short, short)
    table = implementation.RecordColumns(1, short)
    for start, stop in ((-1, 1), (0, 2)):
        with pytest.raises(ValueError, match="row range"):
            implementation.ProducerBatch("t", 0, 100, 0).append_columns(table, start, stop, 0)
    appender, _, _ = opened(implementation)
    with pytest.raises(ValueError, match="partitions must cover"):
        appender.append_columns("t", table, b"", 0, 1)
    with pytest.raises(ValueError, match="keys or partitions"):
        implementation.partitions_for_keys(None, 3)
    with pytest.raises(ValueError, match="partition_count must be >= 1"):
        implementation.partitions_for_keys(short, 0)
    assert appender.append_columns("unknown", table, None, 0, 1) == (0, [])


def test_append_columns_stops_at_a_row_that_cannot_be_encoded(implementation: SimpleNamespace) -> None:
    count = 3
    names = bytes_column(implementation, [b"good", None])
    header_values = bytes_column(implementation, [b"x", b"y"])
    nameless = implementation.RecordColumns(
        count,
        bytes_column(implementation, [b"a", b"b", b"c"]),
        headers=implementation.HeadersColumn(count, 0, None, ints(0, 1, 2, 2), names, header_values),
    )
    early = implementation.RecordColumns(
        count,
        None,
        timestamps=implementation.NumbersColumn(count, 0, None, array("q", [5, -5, 5]).tobytes(), 8),
    )
    for columns in (nameless, early):
        batch = implementation.ProducerBatch("t", 0, 1000, 0)
        assert batch.append_columns(columns, 0, count, NOW) == 1
        assert batch.append_columns(columns, 1, count, NOW) == 0
    assert nameless.row(1) == (None, None, b"b", ((None, b"y"),))
