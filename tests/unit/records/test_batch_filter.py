"""Offset map and compaction of every kind of batch."""

from array import array
from collections.abc import Iterable
from threading import Event, Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.record_codecs import COMPILED

from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.protocol_enums import Compression
from odradek.records import codec
from odradek.records.batch import BatchBuilder, Record
from odradek.records.batch_filter import filter_batch, put_batch
from odradek.records.codec import OffsetMap
from odradek.records.control_records import ControlRecordType, EndTransactionMarker, build_end_marker
from odradek.records.conversion import down_convert
from odradek.records.layout import DELETE_HORIZON_BIT, BatchHeader, FilterResult
from odradek.records.message_set import write_message_set

SEED = b"sixteen bytes it"
NOW = 1_000_000
RETENTION = 500
T = 900_000

Row = tuple[bytes | None, bytes | None]


def batch(*rows: Row, base_offset: int = 0, **fields: Any) -> bytes:
    """A batch of keys and values, one millisecond apart."""
    builder = BatchBuilder(base_offset, **fields)
    for index, (key, value) in enumerate(rows):
        builder.append(T + index, key, value, [("h", b"x")])
    return builder.build()


def known(offsets: dict[bytes, int], latest_offset: int = 100) -> OffsetMap:
    keys = OffsetMap(max(len(offsets), 1), SEED)
    for key, offset in offsets.items():
        keys.put(key, offset)
    keys.update_latest_offset(latest_offset)
    return keys


def filter_plain(
    log: bytes, keys: OffsetMap, kept_last: Iterable[int] = (), now_ms: int = NOW
) -> tuple[bytes, FilterResult]:
    out = bytearray()
    counts = codec.filter_batches(log, 0, keys, memoryview(array("q", kept_last)), now_ms, RETENTION, out)
    return bytes(out), counts


def filter_single(data: bytes, keys: OffsetMap, **overrides: Any) -> bytes | None:
    options = {
        "discard_records": False,
        "keep_empty": False,
        "drop_tombstones_of_legacy": False,
        "now_ms": NOW,
        "delete_retention_ms": RETENTION,
    }
    (header,) = codec.read_headers(data)
    return filter_batch(data, header, keys, **(options | overrides))


def learn_all(log: bytes, keys: OffsetMap, from_offset: int, count_max: int) -> bool:
    """Put a log into the map as the cleaner does; return whether all of it was put."""
    position = 0
    while True:
        position = keys.put_batches(log, position, from_offset, count_max)
        header = codec.header_at(log, position)
        if header is None:
            return True
        if not put_batch(log, header, keys, from_offset, count_max):
            return False
        position = header.end_position


def filter_log(log: bytes, keys: OffsetMap, now_ms: int = NOW) -> bytes:
    out = bytearray()
    position = 0
    while True:
        position = codec.filter_batches(
            log, position, keys, memoryview(array("q")), now_ms, RETENTION, out
        ).position
        header = codec.header_at(log, position)
        if header is None:
            return bytes(out)
        single = log[position : header.end_position]
        out += filter_single(single, keys, now_ms=now_ms) or b""
        position = header.end_position


def only_header(data: bytes) -> BatchHeader:
    (header,) = codec.read_headers(data)
    assert codec.has_valid_crc(data, header)
    return header


# ---- laws ----

rows = st.lists(
    st.tuples(st.sampled_from([b"a", b"b", b"c", b"d", b"e", b""]), st.none() | st.binary(max_size=5)),
    min_size=1,
    max_size=6,
)


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Batches of every kind with keyed records."""
    out = bytearray()
    offset = draw(st.integers(0, 5))
    for given_rows in draw(st.lists(rows, max_size=6)):
        kind = draw(st.sampled_from(["plain", "plain", "plain", "compressed", "transactional", "legacy"]))
        if kind == "legacy":
            records = [Record(offset + at, T + at, *row) for at, row in enumerate(given_rows)]
            out += write_message_set(records, 1, draw(st.sampled_from([Compression.NONE, Compression.LZ4])))
        else:
            out += batch(
                *given_rows,
                base_offset=offset,
                compression=draw(st.sampled_from(list(Compression)[1:])) if kind == "compressed" else 0,
                transactional=kind == "transactional",
                producer_id=3 if kind == "transactional" else -1,
                append_time_ms=draw(st.none() | st.just(T + 50)),
            )
        offset += len(given_rows) + draw(st.integers(0, 2))
    return bytes(out)


@given(logs())
def test_only_the_latest_record_of_each_key_is_retained(log: bytes) -> None:
    keys = OffsetMap(16, SEED)
    assert learn_all(log, keys, 0, 16)
    before = codec.decode(log)
    newest = {record.key: record for record in before}
    assert codec.decode(filter_log(log, keys)) == sorted(newest.values())
    assert keys.count == len(newest)


@given(logs())
def test_filtering_is_idempotent(log: bytes) -> None:
    keys = OffsetMap(16, SEED)
    learn_all(log, keys, 0, 16)
    once = filter_log(log, keys)
    assert filter_log(once, keys) == once
    assert all(codec.has_valid_crc(once, header) for header in codec.read_headers(once))


@given(logs(), st.integers(1, 3))
def test_small_map_reaches_the_same_result_in_rounds(log: bytes, slots: int) -> None:
    """Each round ends where its map was full, possibly within a batch."""
    newest = {record.key: record for record in codec.decode(log)}
    keys = OffsetMap(slots, SEED)
    first_dirty = 0
    done = False
    while not done:
        keys.clear()
        done = learn_all(log, keys, first_dirty, slots)
        assert done or keys.latest_offset >= first_dirty
        log = filter_log(log, keys)
        first_dirty = keys.latest_offset + 1
    assert codec.decode(log) == sorted(newest.values())


@given(logs())
def test_tombstones_are_deleted_after_their_delete_horizon(log: bytes) -> None:
    keys = OffsetMap(16, SEED)
    learn_all(log, keys, 0, 16)
    once = filter_log(log, keys)
    assert filter_log(once, keys, NOW + RETENTION - 1) == once
    later = filter_log(once, keys, NOW + RETENTION)
    modern = [header for header in codec.read_headers(later) if header.magic == 2]
    assert all(record.value is not None for header in modern for record in codec.decode_batch(later, header))


# ---- learning ----


def test_keys_below_the_first_dirty_offset_and_null_keys_are_not_put() -> None:
    log = batch((b"a", b"1"), (b"b", b"2"), (None, b"3"), (b"c", b"4"), base_offset=10)
    keys = OffsetMap(8, SEED)
    assert keys.put_batches(log, 0, 11, 8) == len(log)
    assert [keys.get(key) for key in (b"a", b"b", b"c")] == [-1, 11, 13]
    assert (keys.count, keys.latest_offset) == (2, 13)


def test_batches_below_the_first_dirty_offset_are_skipped_even_if_corrupt() -> None:
    log = bytearray(batch((b"a", b"1")))
    log[-1] ^= 1
    keys = OffsetMap(1, SEED)
    assert keys.put_batches(log, 0, 1, 1) == len(log)
    assert (keys.count, keys.latest_offset) == (0, -1)


def test_put_stops_before_a_batch_that_might_overflow_the_map() -> None:
    first = batch((b"a", b"1"), (b"b", b"1"))
    log = first + batch((b"a", b"2"), (b"b", b"2"), base_offset=2)
    keys = OffsetMap(8, SEED)
    assert keys.put_batches(log, 0, 0, 3) == len(first)
    assert (keys.count, keys.latest_offset, keys.get(b"a")) == (2, 1, 0)
    assert keys.put_batches(log, len(first), 0, 4) == len(log)
    assert (keys.count, keys.latest_offset, keys.get(b"a")) == (2, 3, 2)


@pytest.mark.parametrize("compression", Compression)
def test_batch_larger_than_an_empty_map_is_put_partially(
    compression: Compression,
) -> None:
    data = batch((b"a", b"1"), (b"b", b"1"), (b"c", b"1"), base_offset=5, compression=compression)
    keys = OffsetMap(2, SEED)
    assert not learn_all(data, keys, 0, 10)
    assert (keys.count, keys.latest_offset) == (2, 6)
    keys.clear()
    assert learn_all(data, keys, 7, 10)
    assert (keys.count, keys.latest_offset, keys.get(b"c")) == (1, 7, 7)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_message_set_larger_than_an_empty_map_is_put_partially(compression: Compression) -> None:
    records = [Record(5 + at, T, key, b"1") for at, key in enumerate((b"a", b"b", b"c"))]
    data = write_message_set(records, 1, compression)
    keys = OffsetMap(2, SEED)
    assert not learn_all(data, keys, 0, 10)
    assert (keys.count, keys.latest_offset) == (2, 6)
    if compression:
        assert not put_batch(data, only_header(data), keys, 0, 10), "it does not fit beside other keys"
        assert keys.latest_offset == 6


@pytest.mark.parametrize(
    "special",
    [
        batch((b"a", b"1"), base_offset=1, compression=Compression.LZ4),
        batch((b"a", b"1"), base_offset=1, transactional=True, producer_id=3),
        build_end_marker(
            EndTransactionMarker(ControlRecordType.COMMIT, 0),
            producer_id=3,
            producer_epoch=0,
            timestamp=T,
            base_offset=1,
        ),
        write_message_set([Record(1, T, b"a", b"1")], 1, Compression.NONE),
        write_message_set([Record(1, -1, b"a", b"1")], 0, Compression.NONE),
    ],
    ids=["compressed", "transactional", "control", "magic 1", "magic 0"],
)
def test_put_and_filter_stop_at_a_batch_that_is_not_plain(special: bytes) -> None:
    plain = batch((b"a", b"0"))
    keys = OffsetMap(2, SEED)
    assert keys.put_batches(plain + special, 0, 0, 2) == len(plain)
    out, counts = filter_plain(plain + special, keys)
    assert counts.position == len(plain)
    assert out == plain


# ---- sifting ----


def test_records_above_the_latest_offset_are_retained_even_without_key() -> None:
    data = batch((b"a", b"1"), (None, b"2"), (None, b"3"), (b"a", b"4"), base_offset=10)
    out, counts = filter_plain(data, known({b"a": 20}, 20))
    assert out == b""
    assert counts.keyless_dropped == 2
    keys = OffsetMap(1, SEED)
    keys.put(b"a", 11)
    out, counts = filter_plain(data, keys)
    assert [record.offset for record in codec.decode(out)] == [12, 13]
    assert counts.keyless_dropped == 1


def test_unchanged_batch_is_copied() -> None:
    data = batch((b"a", b"1"), (b"b", b"2"))
    assert filter_plain(data, known({b"a": 0, b"b": 1}))[0] == data
    assert filter_plain(data, known({}))[0] == data


def test_changed_batch_keeps_offset_range_producer_and_leader_epoch() -> None:
    data = batch(
        *((b"a", b"1"), (b"b", b"2"), (b"c", b"3"), (b"d", b"4")),
        base_offset=10,
        leader_epoch=7,
        producer_id=5,
        producer_epoch=2,
        base_sequence=30,
    )
    out, _ = filter_plain(data, known({b"a": 50, b"c": 50, b"d": 50}))
    before, after = only_header(data), only_header(out)
    changed = {"size_bytes", "crc", "count", "base_timestamp", "max_timestamp"}
    assert {name for name in before._fields if getattr(before, name) != getattr(after, name)} == changed
    assert (after.count, after.base_timestamp, after.max_timestamp) == (1, T + 1, T + 1)
    assert codec.decode(out) == [Record(11, T + 1, b"b", b"2", (("h", b"x"),))]


def test_changed_batch_keeps_log_append_time() -> None:
    data = batch((b"a", b"1"), (b"b", b"2"), append_time_ms=T + 99)
    out, _ = filter_plain(data, known({b"b": 50}))
    assert only_header(out).max_timestamp == T + 99
    assert [record.timestamp for record in codec.decode(out)] == [T + 99]


def test_retained_tombstone_sets_the_delete_horizon_and_no_timestamp_changes() -> None:
    data = batch((b"a", b"1"), (b"b", None), (b"c", b"3"))
    out, counts = filter_plain(data, known({b"a": 0, b"b": 1, b"c": 2}))
    header = only_header(out)
    assert header.attributes == DELETE_HORIZON_BIT
    assert header.delete_horizon_ms == NOW + RETENTION
    assert codec.decode(out) == codec.decode(data)
    assert header.max_timestamp == only_header(data).max_timestamp
    assert counts.tombstones_kept == 1


def test_delete_horizon_is_set_once_and_applied() -> None:
    data = batch((b"a", b"1"), (b"b", None), delete_horizon_ms=NOW)
    keys = known({b"a": 0, b"b": 1})
    assert filter_plain(data, keys, now_ms=NOW - 1)[0] == data
    out, counts = filter_plain(data, keys, now_ms=NOW)
    assert only_header(out).delete_horizon_ms == NOW
    assert codec.decode(out) == codec.decode(data)[:1]
    assert counts.tombstones_kept == 0


def test_batch_with_delete_horizon_is_down_converted() -> None:
    data = batch((b"a", None), delete_horizon_ms=NOW)
    assert [record.timestamp for record in codec.decode(down_convert(data, 1, 0))] == [T]


def test_last_batch_of_a_producer_is_retained_as_a_header() -> None:
    fields = {"producer_id": 5, "producer_epoch": 2, "base_sequence": 30, "leader_epoch": 7}
    data = batch((b"a", b"1"), (b"a", None), base_offset=10, delete_horizon_ms=NOW, **fields)
    keys = known({b"a": 50})
    assert filter_plain(data, keys)[0] == b""
    assert filter_plain(data, keys, [10, 12])[0] == b""
    out, counts = filter_plain(data, keys, [3, 11, 12])
    before, after = only_header(data), only_header(out)
    assert after == before._replace(size_bytes=61, crc=after.crc, attributes=0, base_timestamp=-1, count=0)
    assert after.last_sequence == 31
    assert (counts.batches_kept, counts.records_kept, counts.bytes_kept) == (1, 0, 61)
    assert filter_plain(out, keys, [11])[0] == out
    assert filter_plain(out, keys)[0] == b""


def test_empty_batch_without_producer_is_not_retained() -> None:
    assert filter_plain(batch((b"a", b"1")), known({b"a": 50}), [0])[0] == b""


def test_filter_result_has_counts_and_index_entries() -> None:
    first = batch((b"a", b"1"), (b"b", b"2"), (b"c", b"3"))
    gone = batch((b"a", b"4"), base_offset=3)
    late = batch((b"b", b"5"), base_offset=4)
    part = late[: len(late) - 1]
    keys = known({b"a": 50, b"b": 4, b"c": 2})
    out = bytearray(b"before")
    counts = codec.filter_batches(
        b"skip" + first + gone + late + part, 4, keys, memoryview(array("q")), NOW, RETENTION, out
    )
    kept = codec.read_headers(out, 6)
    assert counts == FilterResult(
        position=4 + len(first + gone + late),
        bytes_read=len(first + gone + late),
        batches_read=3,
        records_read=5,
        bytes_kept=len(out) - 6,
        batches_kept=2,
        records_kept=2,
        tombstones_kept=0,
        keyless_dropped=0,
        last_offset=4,
        last_batch_position=kept[1].position,
        max_timestamp=T + 2,
        offset_of_max_timestamp=2,
    )


# ---- corrupt batches ----


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
def test_flipped_bit_is_never_put_copied_or_given_a_valid_crc(compression: Compression) -> None:
    good = batch((b"a", b"1"), (b"b", b"2"), compression=compression)
    other = batch((b"z", b"1"), base_offset=2)
    for position in range(17, len(good)):
        bad = bytearray(good)
        bad[position] ^= 0x10
        keys = OffsetMap(9, SEED)
        with pytest.raises(BrokerError) as caught:
            learn_all(bytes(bad) + other, keys, 0, 9)
        assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
        assert keys.count == 0
        for latest in (-1, 100):
            with pytest.raises(BrokerError) as caught:
                filter_log(bytes(bad), known({b"a": 50}, latest))
            assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


def test_batches_before_a_corrupt_one_are_put_but_not_output() -> None:
    good, bad = batch((b"a", b"1")), bytearray(batch((b"b", b"1"), base_offset=1))
    bad[-1] ^= 1
    keys = OffsetMap(9, SEED)
    with pytest.raises(BrokerError):
        keys.put_batches(good + bad, 0, 0, 9)
    assert (keys.count, keys.latest_offset) == (1, 0)
    out = bytearray()
    with pytest.raises(BrokerError):
        codec.filter_batches(good + bad, 0, keys, memoryview(array("q")), NOW, RETENTION, out)
    assert out == b""


@pytest.mark.parametrize("magic", [0, 1])
def test_corrupt_message_is_rejected(magic: int) -> None:
    data = bytearray(write_message_set([Record(0, T, b"a", b"1")], magic, Compression.NONE))
    data[-1] ^= 1
    keys = known({})
    with pytest.raises(BrokerError) as caught:
        learn_all(bytes(data), keys, 0, 9)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
    with pytest.raises(BrokerError) as caught:
        filter_single(bytes(data), keys)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


# ---- special batches ----


@pytest.mark.parametrize("compression", list(Compression)[1:])
def test_compressed_batch_keeps_its_codec(compression: Compression) -> None:
    data = batch((b"a", b"1"), (b"b", None), (b"c", b"3"), base_offset=10, compression=compression)
    out = filter_single(data, known({b"a": 50, b"b": 11, b"c": 12}))
    assert out is not None
    assert codec.decode(out) == codec.decode(data)[1:]
    header = only_header(out)
    assert header.compression is compression
    assert (header.base_offset, header.last_offset) == (10, 12)
    assert header.delete_horizon_ms == NOW + RETENTION
    assert filter_single(out, known({b"c": 12})) == out


def test_empty_compressed_batch_becomes_an_uncompressed_header_or_nothing() -> None:
    data = batch((b"a", b"1"), compression=Compression.ZSTD, producer_id=4, producer_epoch=0, base_sequence=1)
    keys = known({b"a": 50})
    assert filter_single(data, keys) is None
    out = filter_single(data, keys, keep_empty=True)
    assert out is not None
    assert (only_header(out).attributes, only_header(out).count, len(out)) == (0, 0, 61)


def test_records_of_an_aborted_transaction_are_discarded() -> None:
    data = batch((b"a", b"1"), transactional=True, producer_id=4, producer_epoch=0, base_sequence=1)
    keys = known({}, -1)
    assert filter_single(data, keys) == data
    assert filter_single(data, keys, discard_records=True) is None
    out = filter_single(data, keys, discard_records=True, keep_empty=True)
    assert out is not None
    assert only_header(out).is_transactional
    assert only_header(out).count == 0


def test_marker_is_retained_until_its_transaction_is_empty_and_its_delete_horizon_passed() -> None:
    marker = build_end_marker(
        EndTransactionMarker(ControlRecordType.ABORT, 3),
        producer_id=4,
        producer_epoch=1,
        timestamp=T,
        base_offset=8,
    )
    keys = known({})
    assert filter_single(marker, keys) == marker
    marked = filter_single(marker, keys, marker_of_empty_transaction=True)
    assert marked is not None
    header = only_header(marked)
    assert header.is_control
    assert header.delete_horizon_ms == NOW + RETENTION
    assert codec.decode(marked) == codec.decode(marker)
    assert filter_single(marked, keys, marker_of_empty_transaction=True, now_ms=NOW + 1) == marked
    assert filter_single(marked, keys, discard_records=True) is None


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize(
    "compression", [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]
)
def test_messages_keep_their_magic(magic: int, compression: Compression) -> None:
    records = [
        Record(10 + index, T + index if magic else -1, key, value)
        for index, (key, value) in enumerate([(b"a", b"1"), (b"b", None), (None, b"3"), (b"c", b"4")])
    ]
    data = write_message_set(records, magic, compression)
    keys = known({b"a": 50, b"b": 11})
    out = filter_log(data, keys)
    assert codec.decode(out) == [records[1], records[3]]
    assert {header.magic for header in codec.read_headers(out)} == {magic}
    assert {header.codec_id for header in codec.read_headers(out)} == {compression}
    assert filter_log(out, keys) == out
    dropped = [
        filter_batch(
            *(out, header, keys),
            discard_records=False,
            keep_empty=True,
            drop_tombstones_of_legacy=True,
            now_ms=NOW,
            delete_retention_ms=RETENTION,
        )
        or b""
        for header in codec.read_headers(out)
    ]
    assert codec.decode(b"".join(dropped)) == [records[3]]


def test_messages_keep_log_append_time() -> None:
    records = [Record(0, T, b"a", b"1"), Record(1, T, b"b", b"2")]
    data = write_message_set(records, 1, Compression.GZIP, append_time_ms=T)
    out = filter_single(data, known({b"a": 50}))
    assert out == write_message_set(records[1:], 1, Compression.GZIP, append_time_ms=T)


# ---- threads ----


def test_lock_is_released_and_a_map_in_use_cannot_be_changed() -> None:
    """While one thread puts batches, another one runs and cannot change the map."""
    log = batch(*((b"%d" % index, bytes(1000)) for index in range(1000))) * 30
    keys = COMPILED.OffsetMap(2000, SEED)
    rejected = Event()

    def put_batches() -> None:
        for _ in range(1000):
            keys.put_batches(log, 0, 0, 2000)
            if rejected.is_set():
                break

    worker = Thread(target=put_batches)
    worker.start()
    while worker.is_alive() and not rejected.is_set():
        try:
            keys.put(b"0", 0)
        except RuntimeError:
            rejected.set()
    worker.join()
    assert rejected.is_set()
    keys.put(b"0", 0)
