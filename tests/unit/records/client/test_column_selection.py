"""Column selection, stop offset and byte limit of ColumnBuilder."""

from __future__ import annotations

from itertools import chain
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fetched_batches import aborted_lists, batch, fetches, marker
from tests.support.record_codecs import COMPILED, IMPLEMENTATIONS

from odradek.model.client_errors import RecordCorrupt
from odradek.model.protocol_enums import Compression
from odradek.records.batch import BatchBuilder, Record
from odradek.records.control_records import ControlRecordType
from odradek.records.layout import INT64_MAX, INT64_MIN, POLL_COLUMNS, Columns, ColumnSet
from odradek.records.message_set import write_message_set

subsets = st.integers(0, 255).map(ColumnSet)

FIELDS_OF = {
    ColumnSet.PARTITIONS: ("topic_indices", "partitions"),
    ColumnSet.OFFSETS: ("offsets",),
    ColumnSet.TIMESTAMPS: ("timestamps",),
    ColumnSet.TIMESTAMP_TYPES: ("timestamp_types",),
    ColumnSet.KEYS: ("key_validity", "key_ends", "keys"),
    ColumnSet.VALUES: ("value_validity", "value_ends", "values"),
    ColumnSet.HEADERS: tuple(name for name in Columns._fields if name.startswith("header")),
}


@pytest.fixture(params=IMPLEMENTATIONS, ids=["compiled", "python"])
def implementation(request: pytest.FixtureRequest) -> SimpleNamespace:
    param: SimpleNamespace = request.param
    return param


def plain(columns: Any) -> list[Any]:
    return [part if isinstance(part, int | tuple) else bytes(part) for part in columns]


def numbers(part: Any, kind: Literal["i", "q", "B"]) -> list[int]:
    values: list[int] = memoryview(part).cast("B").cast(kind).tolist()
    return values


def rounds(
    implementation: SimpleNamespace, data: bytes, wanted: int, stops: list[int], bytes_max: int, aborted: Any
) -> list[Any]:
    """Columns that one builder gets from a reader, up to each stop offset in turn."""
    observed: list[Any] = []
    reader, builder = (
        implementation.RecordReader(data, "t", 2, 0, aborted=aborted),
        implementation.ColumnBuilder(wanted, bytes_max),
    )
    for stop in [*sorted(stops), INT64_MAX]:
        for _ in range(200):
            try:
                count = reader.take_columns(3, builder, stop)
            except RecordCorrupt as refusal:
                return [*observed, ("refuses", refusal.code, reader.next_offset)]
            state = (reader.next_offset, reader.exhausted, reader.has_partial_batch, reader.leader_epoch)
            is_full = builder.is_full
            observed.append((count, builder.row_count, is_full, state))
            if is_full or count:
                observed.append(plain(builder.finish()))
            if reader.exhausted or reader.next_offset >= stop:
                break
        else:
            raise AssertionError("the reader does not end")
    return observed


@given(fetches(), subsets, st.lists(st.integers(0, 30), max_size=3), st.integers(0, 60), aborted_lists)
def test_implementations_build_equal_columns(
    data: bytes, wanted: int, stops: list[int], bytes_max: int, aborted: Any
) -> None:
    compiled, python = (
        rounds(implementation, data, wanted, stops, bytes_max, aborted) for implementation in IMPLEMENTATIONS
    )
    assert compiled == python


@given(fetches(), st.lists(st.integers(0, 30), max_size=3), aborted_lists)
def test_stop_offsets_neither_lose_nor_repeat_rows(data: bytes, stops: list[int], aborted: Any) -> None:
    def offsets(stops: list[int]) -> list[list[int]]:
        reader = COMPILED.RecordReader(data, "t", 0, 0, aborted=aborted)
        values = []
        for stop in [*sorted(stops), INT64_MAX]:
            builder = COMPILED.ColumnBuilder()
            while reader.take_columns(2, builder, stop):
                pass
            values.append(numbers(builder.finish().offsets, "q"))
        return values

    cut = offsets(stops)
    assert list(chain.from_iterable(cut)) == offsets([])[0]
    for part, stop in zip(cut, sorted(stops), strict=False):
        assert all(offset < stop for offset in part)


@given(fetches(), subsets, st.sampled_from(IMPLEMENTATIONS))
def test_unselected_columns_are_empty_and_the_others_unchanged(
    data: bytes, wanted: int, implementation: SimpleNamespace
) -> None:
    wanted &= ~ColumnSet.TIMESTAMPS_US

    def columns(chosen: int) -> Any:
        builder = implementation.ColumnBuilder(chosen)
        implementation.RecordReader(data, "t", 2, 0).take_columns(100, builder)
        return builder.finish()

    whole, some = columns(POLL_COLUMNS | ColumnSet.TIMESTAMP_TYPES), columns(wanted)
    assert some.row_count == whole.row_count
    for column, names in FIELDS_OF.items():
        for name in names:
            expected = bytes(getattr(whole, name)) if wanted & column else b""
            assert bytes(getattr(some, name)) == expected, name


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_timestamp_types(implementation: SimpleNamespace, magic: int) -> None:
    own = BatchBuilder(0)
    own.append(7, None, b"")
    brokers = BatchBuilder(1, append_time_ms=9)
    brokers.append(3, None, b"")
    old = (
        write_message_set([Record(2, 5 if magic else -1, None, b"")], magic, Compression.NONE)
        if magic < 2
        else b""
    )
    builder = implementation.ColumnBuilder(ColumnSet.TIMESTAMP_TYPES | ColumnSet.TIMESTAMPS_US)
    implementation.RecordReader(own.build() + brokers.build() + old, "t", 0, 0).take_columns(9, builder)
    columns = builder.finish()
    tail = {0: [(-1, -1000)], 1: [(0, 5000)], 2: []}[magic]
    values = zip(numbers(columns.timestamp_types, "i"), numbers(columns.timestamps, "q"), strict=True)
    assert list(values) == [(0, 7000), (1, 9000), *tail]


@pytest.mark.parametrize(
    ("given_ms", "expected_us"),
    [
        (-1, -1000),
        (INT64_MAX // 1000, INT64_MAX // 1000 * 1000),
        (INT64_MAX // 1000 + 1, INT64_MAX),
        (INT64_MIN, INT64_MIN),
    ],
)
def test_microseconds_saturate_at_int64(
    implementation: SimpleNamespace, given_ms: int, expected_us: int
) -> None:
    made = BatchBuilder(0, append_time_ms=given_ms)
    made.append(0, None, b"")
    builder = implementation.ColumnBuilder(ColumnSet.TIMESTAMPS_US)
    implementation.RecordReader(made.build(), "t", 0, 0).take_columns(1, builder)
    assert numbers(builder.finish().timestamps, "q") == [expected_us]


def test_gap_at_the_stop_offset_is_skipped(implementation: SimpleNamespace) -> None:
    data = batch(0, b"a", b"b") + batch(10, b"c")
    reader, builder = implementation.RecordReader(data, "t", 0, 0), implementation.ColumnBuilder()
    assert reader.take_columns(9, builder, 5) == 2
    assert reader.take_columns(9, builder, 5) == 0
    assert reader.next_offset == 5
    assert reader.take_columns(9, builder, 10) == 0
    assert reader.next_offset == 10
    assert reader.take_columns(9, builder, 11) == 1
    assert reader.exhausted


def test_control_records_at_the_end_are_skipped(implementation: SimpleNamespace) -> None:
    data = batch(0, b"a") + marker(1, 7, ControlRecordType.COMMIT) + batch(2, b"b")
    reader, builder = implementation.RecordReader(data, "t", 0, 0), implementation.ColumnBuilder()
    assert reader.take_columns(9, builder, 2) == 1
    assert reader.next_offset == 2
    assert not reader.exhausted


def test_byte_limit_stops_after_the_row_that_reaches_it(implementation: SimpleNamespace) -> None:
    reader = implementation.RecordReader(batch(0, *([b"x" * 99] * 5)), "t", 0, 0)  # and keys of one byte
    builder = implementation.ColumnBuilder(POLL_COLUMNS, 150)
    assert reader.take_columns(9, builder) == 2
    assert builder.is_full
    assert reader.take_columns(9, builder) == 0
    assert reader.next_offset == 2
    builder.finish()
    assert not builder.is_full
    assert reader.take_columns(9, builder) == 2
    tiny = implementation.ColumnBuilder(POLL_COLUMNS, 0)
    assert reader.take_columns(9, tiny) == 1
    assert reader.exhausted
