"""Where each record of a producer goes: into an open batch by the one call, or the slow way."""

import threading
from array import array
from types import ModuleType
from typing import Any

import pytest
from aiokafka.partitioner import murmur2 as aiokafka_murmur2
from hypothesis import given
from hypothesis import strategies as st

from odradek.records import _codec, codec
from odradek.records.pure import producer

TWINS = (_codec, producer)
NOW = 1_700_000_000_000


@pytest.fixture(params=TWINS, ids=["compiled", "python"])
def twin(request: pytest.FixtureRequest) -> ModuleType:
    made: ModuleType = request.param
    return made


class Slow:
    """Notes what it is given."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __call__(self, *arguments: Any) -> str:
        self.calls.append(arguments)
        return "slow"


def opened(
    twin: ModuleType, partitions: int = 3, *, capacity: int = 4096, **options: Any
) -> tuple[Any, Slow, list[Any]]:
    slow = Slow()
    appender = twin.RecordAppender(slow, lambda: NOW, **options)
    appender.set_topic("t", partitions)
    batches = [twin.ProducerBatch("t", partition, capacity, NOW) for partition in range(partitions)]
    for batch in batches:
        appender.set_open_batch(batch)
    appender.set_sticky("t", 1)
    return appender, slow, batches


def sent(batch: Any) -> list[Any]:
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
def test_keys_hash_as_kafkas_java_client_hashes_them(twin: ModuleType, key: bytes, hashed: int) -> None:
    assert twin.murmur2(key) == hashed
    assert twin.partition_for_key(key, 7) == (hashed & 0x7FFFFFFF) % 7


@given(st.binary(max_size=40))
def test_twins_and_aiokafka_hash_alike(key: bytes) -> None:
    assert _codec.murmur2(key) == producer.murmur2(key)
    assert _codec.murmur2(memoryview(key)) & 0xFFFFFFFF == aiokafka_murmur2(key) & 0xFFFFFFFF


def test_no_topic_has_no_partitions(twin: ModuleType) -> None:
    with pytest.raises(ValueError, match="partition"):
        twin.partition_for_key(b"key", 0)


def test_a_record_goes_where_its_partition_its_key_or_the_sticky_one_says(twin: ModuleType) -> None:
    appender, slow, batches = opened(twin)
    assert appender.send("t", b"given", b"21", None, 2).partition == 2
    assert appender.send("t", b"keyed", b"21").partition == twin.partition_for_key(b"21", 3)
    assert appender.send("t", b"sticky").partition == 1
    assert appender.send("t", value=b"named", headers=[("h", b"x")], timestamp_ms=5).timestamp == 5
    assert slow.calls == []
    records = [record for batch in batches for record in sent(batch)]
    assert {record.value for record in records} == {b"given", b"keyed", b"sticky", b"named"}
    assert {record.timestamp for record in records} == {NOW, 5}
    assert [record.headers for record in records if record.value == b"named"] == [(("h", b"x"),)]


def test_the_system_is_asked_for_the_time_when_nobody_else_is(twin: ModuleType) -> None:
    appender = twin.RecordAppender(Slow())
    appender.set_topic("t", 1)
    appender.set_open_batch(twin.ProducerBatch("t", 0, 1000, 0))
    assert appender.send("t", b"v", partition=0).timestamp > NOW


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
def test_everything_else_goes_the_slow_way_as_it_was_given(
    twin: ModuleType, arguments: tuple[Any, ...]
) -> None:
    appender, slow, batches = opened(twin)
    batches[0].append(1, None, b"first", None)
    assert appender.send(*arguments) == "slow"
    assert slow.calls == [arguments]
    assert [batch.count for batch in batches] == [1, 0, 0]


def test_what_is_closed_goes_the_slow_way(twin: ModuleType) -> None:
    appender, slow, batches = opened(twin)
    batches[0].seal()
    appender.clear_open_batch("t", 2)
    appender.clear_open_batch("t", 9)
    assert appender.send("t", b"v", partition=0) == appender.send("t", b"v", partition=2) == "slow"
    appender.set_sticky("t", -1)
    assert appender.send("t", b"v") == "slow"
    appender.paused = True
    assert appender.send("t", b"v", partition=1) == "slow"
    appender.paused = False
    assert appender.send("t", b"v", partition=1) != "slow"
    appender.clear_all()
    assert appender.open_batch("t", 1) is None
    assert appender.send("t", b"v", partition=1) == "slow"
    appender.forget_topic("t")
    appender.forget_topic("t")
    assert appender.open_batch("t", 1) is None
    assert len(slow.calls) == 5


def test_more_partitions_keep_the_open_batches(twin: ModuleType) -> None:
    appender, _, batches = opened(twin)
    appender.set_topic("t", 5)
    assert appender.open_batch("t", 2) is batches[2]
    assert appender.open_batch("t", 4) is None
    assert appender.sticky("t") == 1
    appender.set_topic("t", 1)
    assert appender.sticky("t") == -1
    with pytest.raises(ValueError, match="no partition"):
        appender.set_open_batch(batches[2])
    with pytest.raises(ValueError, match="no partition"):
        appender.set_sticky("t", 1)
    with pytest.raises(ValueError, match="negative"):
        appender.set_topic("t", -1)
    with pytest.raises(KeyError):
        appender.sticky("unknown")
    appender.set_topic("t", 0)
    assert appender.send("t", b"v", b"key") == "slow"


def test_bytes_of_the_sticky_partition_are_counted(twin: ModuleType) -> None:
    appender, _, batches = opened(twin)
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


def test_sticky_partitions_take_turns_after_so_many_bytes(twin: ModuleType) -> None:
    appender, slow, batches = opened(twin)
    appender.set_sticky_schedule("t", [2, 2, 0], 250)
    for _ in range(12):
        appender.send("t", bytes(90))
    assert [batch.count for batch in batches] == [3, 3, 6]
    assert appender.sticky("t") == 0
    # After the last turn it stays.
    for _ in range(6):
        appender.send("t", bytes(90))
    assert batches[0].count == 9
    assert appender.advance_sticky("t") == -1
    assert slow.calls == []


@pytest.mark.parametrize("call", ["send_many", "append_columns"])
def test_turns_are_taken_in_the_middle_of_a_call(twin: ModuleType, call: str) -> None:
    appender, _, batches = opened(twin)
    appender.set_sticky_schedule("t", [2, 1], 250)
    values = [bytes(90)] * 9
    if call == "send_many":
        done, touched = appender.send_many("t", values)
    else:
        ends = array("i", range(0, 90 * 10, 90))
        column = twin.BytesColumn(9, 0, None, ends, b"".join(values))
        done, touched = appender.append_columns("t", twin.RecordColumns(9, column), None, 0, 9)
    assert done == 9
    assert touched == [(batches[1], 0, 6), (batches[2], 0, 3)]


def test_turns_can_be_taken_early_and_end_with_another_choice(twin: ModuleType) -> None:
    appender, _, _ = opened(twin)
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
        with pytest.raises(ValueError, match="no partition"):
            appender.set_sticky_schedule("t", [number], 250)


def test_keys_can_be_ignored_and_partitions_left_to_others(twin: ModuleType) -> None:
    appender, _, _ = opened(twin, ignore_keys=True)
    assert {appender.send("t", b"v", b"key %d" % n).partition for n in range(20)} == {1}
    only_given, slow, _ = opened(twin, explicit_partitions_only=True)
    assert only_given.send("t", b"v", b"key") == only_given.send("t", b"v") == "slow"
    assert only_given.send("t", b"v", b"key", None, 2).partition == 2
    assert len(slow.calls) == 2


def test_callbacks_given_to_send_are_called(twin: ModuleType) -> None:
    appender, _, batches = opened(twin)
    seen: list[Any] = []
    appender.send("t", b"v", on_delivery=lambda metadata, error: seen.append((metadata.offset, error)))
    batches[1].complete(30)
    assert seen == [(30, None)]


def test_an_error_of_the_clock_appends_nothing(twin: ModuleType) -> None:
    def broken() -> int:
        raise OSError("no clock")

    appender = twin.RecordAppender(Slow(), broken)
    appender.set_topic("t", 1)
    batch = twin.ProducerBatch("t", 0, 1000, 0)
    appender.set_open_batch(batch)
    with pytest.raises(OSError, match="no clock"):
        appender.send("t", b"v", partition=0)
    assert batch.count == 0


values = st.lists(st.none() | st.binary(max_size=30) | st.just("text"), max_size=25)


@given(values, st.data())
def test_many_records_go_as_each_would_up_to_the_first_that_is_slow(
    given_values: list[Any], data: st.DataObject
) -> None:
    size = len(given_values)
    keys = data.draw(st.none() | st.lists(st.none() | st.binary(max_size=6), min_size=size, max_size=size))
    partition = data.draw(st.sampled_from([None, None, 0, 7]))
    start = data.draw(st.integers(0, size))
    capacity = data.draw(st.sampled_from([150, 4096]))
    seen = []
    for twin in TWINS:
        appender, slow, batches = opened(twin, capacity=capacity)
        batches[0].append(1, None, b"before", None)
        before = [batch.count for batch in batches]
        stopped, touched = appender.send_many("t", given_values, keys, partition, 77, start)
        single, slow, expected = opened(twin, capacity=capacity)
        expected[0].append(1, None, b"before", None)
        for index in range(start, stopped):
            assert single.send("t", given_values[index], keys and keys[index], None, partition, 77) != "slow"
        if stopped < size:
            assert (
                single.send("t", given_values[stopped], keys and keys[stopped], None, partition, 77) == "slow"
            )
        assert [bytes(b.plain_records()) for b in batches] == [bytes(b.plain_records()) for b in expected]
        assert appender.sticky_bytes("t") == single.sticky_bytes("t")
        assert slow.calls == slow.calls[:1]
        for batch, first, count in touched:
            assert (first, first + count) == (before[batch.partition], batch.count)
        assert sum(count for _, _, count in touched) == stopped - start
        seen.append((stopped, [(b.partition, first, count) for b, first, count in touched]))
    assert seen[0] == seen[1]


def test_many_records_need_a_key_each_and_a_known_topic(twin: ModuleType) -> None:
    appender, _, _ = opened(twin)
    with pytest.raises(ValueError, match="keys"):
        appender.send_many("t", [b"a"], [])
    with pytest.raises(ValueError, match="start"):
        appender.send_many("t", [b"a"], None, None, None, -1)
    assert appender.send_many("unknown", [b"a"]) == (0, [])
    assert appender.send_many("t", (b"a",), timestamp_ms=-5) == (0, [])


def test_threads_that_send_and_one_that_takes_batches_away_lose_nothing() -> None:
    """Records of four threads, while batches are sealed under them: each once, in its thread's order."""
    taken: list[Any] = []
    lock = threading.Lock()

    def slow(topic: str, value: bytes, key: bytes | None, *rest: Any) -> Any:
        with lock:
            batch = appender.open_batch(topic, 0)
            found = None if batch is None else batch.append(5, key, value, None)
            while found is None:
                batch = _codec.ProducerBatch(topic, 0, 4096, 0)
                found = batch.append(5, key, value, None)
                taken.append(batch)
                appender.set_open_batch(batch)
            return found

    appender = _codec.RecordAppender(slow)
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
    found: dict[int, list[int]] = {}
    for batch in taken:
        for record in codec.decode(batch.finish(0, -1, -1, -1)):
            name, number = map(int, record.value.split())
            found.setdefault(name, []).append(number)
    assert found == {name: list(range(5_000)) for name in range(4)}


# ---- columns ----


def bytes_column(twin: ModuleType, cells: list[bytes | None], *, wide: bool = False, offset: int = 0) -> Any:
    ends, content, validity = array("q" if wide else "i", [0]), b"", bytearray((len(cells) + 7) // 8)
    for index, cell in enumerate(cells):
        content += cell or b""
        ends.append(len(content))
        validity[index >> 3] |= (cell is not None) << (index & 7)
    return twin.BytesColumn(len(cells) - offset, offset, bytes(validity), ends.tobytes(), content, wide)


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


def columns_of(twin: ModuleType, given_rows: list[Any], wide: bool, offset: int) -> Any:
    names = [name.encode() for row in given_rows for name, _ in row[3]]
    header_values = [value for row in given_rows for _, value in row[3]]
    ends = array("q" if wide else "i", [0])
    for row in given_rows:
        ends.append(ends[-1] + len(row[3]))
    count = len(given_rows) - offset
    times = array("q", [row[2] or 0 for row in given_rows]).tobytes()
    validity = bytearray((len(given_rows) + 7) // 8)
    for index, row in enumerate(given_rows):
        validity[index >> 3] |= (row[2] is not None) << (index & 7)
    return twin.RecordColumns(
        count,
        bytes_column(twin, [row[0] for row in given_rows], wide=wide, offset=offset),
        bytes_column(twin, [row[1] for row in given_rows], wide=wide, offset=offset),
        twin.NumbersColumn(count, offset, validity, times, 8),
        twin.HeadersColumn(
            count,
            offset,
            None,
            ends.tobytes(),
            bytes_column(twin, names),
            bytes_column(twin, header_values),
            wide,
        ),
    )


@given(rows, st.booleans(), st.data())
def test_rows_of_columns_become_records(given_rows: list[Any], wide: bool, data: st.DataObject) -> None:
    offset = data.draw(st.integers(0, len(given_rows) - 1))
    start = data.draw(st.integers(0, len(given_rows) - offset))
    capacity = data.draw(st.sampled_from([150, 1 << 20]))
    wanted = given_rows[offset:]
    seen = []
    for twin in TWINS:
        columns = columns_of(twin, given_rows, wide, offset)
        batch = twin.ProducerBatch("t", 0, capacity, 0)
        taken = batch.append_columns(columns, start, len(wanted), NOW)
        assert taken == len(wanted) - start or capacity == 150
        assert [(r.value, r.key, r.timestamp, list(r.headers)) for r in sent(batch)] == [
            (value, key, NOW if time is None else time, list(pairs))
            for value, key, time, pairs in wanted[start : start + taken]
        ]
        for index, (value, key, time, pairs) in enumerate(wanted):
            assert columns.row(index) == (time, key, value, tuple(pairs))
        seen.append((taken, bytes(batch.plain_records())))
    assert seen[0] == seen[1]


@given(rows, st.data())
def test_rows_go_to_their_partitions_up_to_the_first_that_has_no_room(
    given_rows: list[Any], data: st.DataObject
) -> None:
    capacity = data.draw(st.sampled_from([150, 1 << 20]))
    given_partitions = data.draw(st.none() | st.lists(st.integers(-1, 3), min_size=20, max_size=20))
    seen = []
    for twin in TWINS:
        columns = columns_of(twin, given_rows, False, 0)
        appender, _, batches = opened(twin, capacity=capacity)
        partitions = None if given_partitions is None else array("i", given_partitions).tobytes()
        stopped, touched = appender.append_columns("t", columns, partitions, 0, len(given_rows))
        assert sum(count for _, _, count in touched) == stopped
        if stopped < len(given_rows):
            partition = -1 if given_partitions is None else given_partitions[stopped]
            full = 1 if partition < 0 else partition
            assert full == 3 or batches[full].count
        seen.append(
            (
                stopped,
                appender.sticky_bytes("t"),
                [(batch.partition, first, count) for batch, first, count in touched],
                [bytes(batch.plain_records()) for batch in batches],
            )
        )
    assert seen[0] == seen[1]


@given(
    st.lists(st.tuples(cells, st.none() | st.integers(-(2**31), 2**31 - 1)), min_size=1, max_size=20),
    st.integers(1, 50),
    st.booleans(),
)
def test_partitions_of_a_column_are_those_of_its_keys(
    given_rows: list[Any], count: int, ignore: bool
) -> None:
    seen = []
    for twin in TWINS:
        keys = bytes_column(twin, [key for key, _ in given_rows])
        validity = bytearray((len(given_rows) + 7) // 8)
        for index, (_, number) in enumerate(given_rows):
            validity[index >> 3] |= (number is not None) << (index & 7)
        numbers = array("i", [number or 0 for _, number in given_rows]).tobytes()
        given_numbers = twin.NumbersColumn(len(given_rows), 0, validity, numbers, 4)
        seen.append(
            [
                memoryview(twin.partitions_for_keys(keys, count, None, ignore)).cast("i").tolist(),
                memoryview(twin.partitions_for_keys(keys, count, given_numbers, ignore)).cast("i").tolist(),
                memoryview(twin.partitions_for_keys(None, count, given_numbers)).cast("i").tolist(),
            ]
        )
    assert seen[0] == seen[1]
    assert seen[0][0] == [
        -1 if key is None or ignore else codec.partition_for_key(key, count) for key, _ in given_rows
    ]
    assert all(
        found == (number if number >= 0 else 2**31 - 1)
        for found, (_, number) in zip(seen[0][2], given_rows, strict=True)
        if number is not None
    )


def ints(*numbers: int) -> bytes:
    return array("i", numbers).tobytes()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((2, 0, None, ints(0, 1), b"abc"), "fewer offsets"),
        ((1, 1, None, ints(0, 1), b"abc"), "fewer offsets"),
        ((1, 0, None, ints(0, 4), b"abc"), "do not rise"),
        ((2, 0, None, ints(0, 2, 1), b"abc"), "do not rise"),
        ((1, 0, None, ints(-1, 1), b"abc"), "do not rise"),
        ((9, 0, b"\xff", ints(*range(10)), bytes(20)), "validity"),
        ((-1, 0, None, ints(0), b""), "negative"),
        ((1, 0, None, array("q", [0, 2**40]).tobytes(), b"", True), "do not rise"),
    ],
)
def test_columns_that_reach_past_their_buffers_are_refused(
    twin: ModuleType, arguments: tuple[Any, ...], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        twin.BytesColumn(*arguments)


def test_tables_that_do_not_fit_together_are_refused(twin: ModuleType) -> None:
    short = bytes_column(twin, [b"a"])
    with pytest.raises(ValueError, match="shorter"):
        twin.RecordColumns(2, short)
    with pytest.raises(ValueError, match="fewer numbers"):
        twin.NumbersColumn(2, 0, None, bytes(8), 8)
    with pytest.raises(ValueError, match="int32 or int64"):
        twin.NumbersColumn(1, 0, None, bytes(8), 2)
    with pytest.raises(ValueError, match="validity"):
        twin.NumbersColumn(9, 0, b"\xff", bytes(80), 8)
    with pytest.raises(ValueError, match="do not rise"):
        twin.HeadersColumn(1, 0, None, ints(0, 2), short, short)
    with pytest.raises(ValueError, match="fewer offsets"):
        twin.HeadersColumn(2, 0, None, ints(0, 1), short, short)
    with pytest.raises(ValueError, match="negative"):
        twin.HeadersColumn(-1, 0, None, ints(0, 1), short, short)
    table = twin.RecordColumns(1, short)
    for start, stop in ((-1, 1), (0, 2)):
        with pytest.raises(ValueError, match="not among"):
            twin.ProducerBatch("t", 0, 100, 0).append_columns(table, start, stop, 0)
    appender, _, _ = opened(twin)
    with pytest.raises(ValueError, match="fewer partitions"):
        appender.append_columns("t", table, b"", 0, 1)
    with pytest.raises(ValueError, match="keys or partitions"):
        twin.partitions_for_keys(None, 3)
    with pytest.raises(ValueError, match="or more"):
        twin.partitions_for_keys(short, 0)
    assert appender.append_columns("unknown", table, None, 0, 1) == (0, [])


def test_a_row_that_no_batch_can_take_stops_the_rows(twin: ModuleType) -> None:
    count = 3
    names = bytes_column(twin, [b"good", None])
    header_values = bytes_column(twin, [b"x", b"y"])
    nameless = twin.RecordColumns(
        count,
        bytes_column(twin, [b"a", b"b", b"c"]),
        headers=twin.HeadersColumn(count, 0, None, ints(0, 1, 2, 2), names, header_values),
    )
    early = twin.RecordColumns(
        count, None, timestamps=twin.NumbersColumn(count, 0, None, array("q", [5, -5, 5]).tobytes(), 8)
    )
    for columns in (nameless, early):
        batch = twin.ProducerBatch("t", 0, 1000, 0)
        assert batch.append_columns(columns, 0, count, NOW) == 1
        assert batch.append_columns(columns, 1, count, NOW) == 0
    assert nameless.row(1) == (None, None, b"b", ((None, b"y"),))
