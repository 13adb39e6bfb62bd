"""Memory that columns had is used again for others; what was given out never changes while it is held."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from odradek.client.arrow import record_batch
from odradek.records import _codec
from odradek.records.batch import BatchBuilder
from odradek.records.pure import consumer

TWINS = (_codec, consumer)
KEPT_BYTES_MIN = 65_536
"""Smaller blocks are not kept."""

Rows = list[tuple[int, bytes, bytes]]


def rows_of(seed: int, count: int, size: int) -> Rows:
    return [
        (seed + index, f"key {seed} {index}".encode(), bytes([(seed + index) % 256]) * size)
        for index in range(count)
    ]


def fetched(rows: Rows) -> bytearray:
    """An answer's bytes with one batch."""
    builder = BatchBuilder(rows[0][0])
    for _, key, value in rows:
        builder.append(1_000, key, value)
    return bytearray(builder.build())


def columns_of(twin: ModuleType, rows: Rows) -> Any:
    builder = twin.ColumnBuilder()
    reader = twin.RecordReader(fetched(rows), "t", 0, 0)
    assert reader.take_columns(len(rows), builder) == len(rows)
    return builder.finish()


def read_back(batch: Any) -> Rows:
    columns = [batch.column(name).to_pylist() for name in ("offset", "key", "value")]
    return list(zip(*columns, strict=True))


sizes = st.tuples(st.integers(0, 1000), st.integers(1, 40), st.sampled_from([0, 10, 3000, 9000]))


class HeldColumns(RuleBasedStateMachine):
    """Batches of columns, parts of them and records are made, held and dropped in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[tuple[Any, Rows]] = []
        self.records: list[tuple[list[Any], Rows]] = []

    @initialize(twin=st.sampled_from(TWINS))
    def choose(self, twin: ModuleType) -> None:
        self.twin = twin

    @rule(size=sizes)
    def make(self, size: tuple[int, int, int]) -> None:
        rows = rows_of(*size)
        self.held.append((record_batch(columns_of(self.twin, rows)), rows))

    @rule(size=sizes, last=st.integers(0, 3))
    def keep_a_part_only(self, size: tuple[int, int, int], last: int) -> None:
        rows = rows_of(*size)
        batch = record_batch(columns_of(self.twin, rows))
        self.held.append((batch.slice(max(len(rows) - last, 0)), rows[max(len(rows) - last, 0) :]))

    @rule(size=sizes)
    def make_in_pieces(self, size: tuple[int, int, int]) -> None:
        """One builder, finished several times."""
        rows = rows_of(*size)
        reader, builder = self.twin.RecordReader(fetched(rows), "t", 0, 0), self.twin.ColumnBuilder()
        while count := reader.take_columns(7, builder):
            self.held.append((record_batch(builder.finish()), rows[:count]))
            rows = rows[count:]

    @rule(size=sizes)
    def leave_unfinished(self, size: tuple[int, int, int]) -> None:
        rows = rows_of(*size)
        self.twin.RecordReader(fetched(rows), "t", 0, 0).take_columns(5, self.twin.ColumnBuilder())

    @rule(size=sizes)
    def read_records_and_receive_anew(self, size: tuple[int, int, int]) -> None:
        """Records own their bytes: the buffer that they were received in may take other bytes."""
        rows = rows_of(*size)
        buffer = fetched(rows)
        self.records.append((self.twin.RecordReader(buffer, "t", 0, 0).take(len(rows)), rows))
        buffer[:] = b"\xee" * len(buffer)

    @rule(index=st.integers(0, 50))
    def drop(self, index: int) -> None:
        for held in (self.held, self.records):
            if held:
                held.pop(index % len(held))

    @invariant()
    def all_that_is_held_is_as_it_was(self) -> None:
        for batch, rows in self.held:
            assert read_back(batch) == rows
        for records, rows in self.records:
            assert [(each.offset, each.key, each.value) for each in records] == rows


TestHeldColumns = HeldColumns.TestCase


@pytest.mark.parametrize("twin", TWINS, ids=["compiled", "python"])
def test_a_column_outlives_the_batch_and_the_columns_it_came_in(twin: ModuleType) -> None:
    rows = rows_of(1, 20, KEPT_BYTES_MIN)
    values = record_batch(columns_of(twin, rows)).column("value")
    for seed in range(10):
        columns_of(twin, rows_of(seed, 20, KEPT_BYTES_MIN))
    assert values.to_pylist() == [value for _, _, value in rows]


def test_memory_that_is_free_again_is_used_again() -> None:
    def address() -> int:
        values = columns_of(_codec, rows_of(1, 20, KEPT_BYTES_MIN)).values
        found: int = pyarrow.py_buffer(values).address
        return found

    assert len({address() for _ in range(20)}) < 20


@given(st.lists(sizes, min_size=2, max_size=5))
def test_two_builders_at_once_have_memory_of_their_own(chosen: list[tuple[int, int, int]]) -> None:
    builders = [(_codec.ColumnBuilder(), rows_of(*size)) for size in chosen]
    for builder, rows in builders:
        _codec.RecordReader(fetched(rows), "t", 0, 0).take_columns(len(rows), builder)
    for builder, rows in builders:
        assert read_back(record_batch(builder.finish())) == rows
