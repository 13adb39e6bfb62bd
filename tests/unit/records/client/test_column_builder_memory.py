"""Memory of columns is reused; finished columns never change while they are referenced."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.support.record_codecs import COMPILED, IMPLEMENTATIONS

from odradek.client.arrow import record_batch
from odradek.records.batch import BatchBuilder

KEPT_BYTES_MIN = 65_536
"""Smaller blocks are not kept."""

Rows = list[tuple[int, bytes, bytes]]


def rows_of(seed: int, count: int, size: int) -> Rows:
    return [
        (seed + index, f"key {seed} {index}".encode(), bytes([(seed + index) % 256]) * size)
        for index in range(count)
    ]


def fetched(rows: Rows) -> bytearray:
    """Fetched bytes with one batch."""
    builder = BatchBuilder(rows[0][0])
    for _, key, value in rows:
        builder.append(1_000, key, value)
    return bytearray(builder.build())


def columns_of(implementation: SimpleNamespace, rows: Rows) -> Any:
    builder = implementation.ColumnBuilder()
    reader = implementation.RecordReader(fetched(rows), "t", 0, 0)
    assert reader.take_columns(len(rows), builder) == len(rows)
    return builder.finish()


def read_back(batch: Any) -> Rows:
    columns = [batch.column(name).to_pylist() for name in ("offset", "key", "value")]
    return list(zip(*columns, strict=True))


sizes = st.tuples(st.integers(0, 1000), st.integers(1, 40), st.sampled_from([0, 10, 3000, 9000]))


class HeldColumns(RuleBasedStateMachine):
    """Columns, slices of them and records are created, held and dropped in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[tuple[Any, Rows]] = []
        self.records: list[tuple[list[Any], Rows]] = []

    @initialize(implementation=st.sampled_from(IMPLEMENTATIONS))
    def choose(self, implementation: SimpleNamespace) -> None:
        self.implementation = implementation

    @rule(size=sizes)
    def make(self, size: tuple[int, int, int]) -> None:
        rows = rows_of(*size)
        self.held.append((record_batch(columns_of(self.implementation, rows)), rows))

    @rule(size=sizes, last=st.integers(0, 3))
    def keep_a_part_only(self, size: tuple[int, int, int], last: int) -> None:
        rows = rows_of(*size)
        batch = record_batch(columns_of(self.implementation, rows))
        self.held.append((batch.slice(max(len(rows) - last, 0)), rows[max(len(rows) - last, 0) :]))

    @rule(size=sizes)
    def make_in_pieces(self, size: tuple[int, int, int]) -> None:
        """One builder, finished several times."""
        rows = rows_of(*size)
        reader, builder = (
            self.implementation.RecordReader(fetched(rows), "t", 0, 0),
            self.implementation.ColumnBuilder(),
        )
        while count := reader.take_columns(7, builder):
            self.held.append((record_batch(builder.finish()), rows[:count]))
            rows = rows[count:]

    @rule(size=sizes)
    def leave_unfinished(self, size: tuple[int, int, int]) -> None:
        rows = rows_of(*size)
        self.implementation.RecordReader(fetched(rows), "t", 0, 0).take_columns(
            5, self.implementation.ColumnBuilder()
        )

    @rule(size=sizes)
    def read_records_and_receive_anew(self, size: tuple[int, int, int]) -> None:
        """Records own their bytes: the buffer that they were received in may take other bytes."""
        rows = rows_of(*size)
        buffer = fetched(rows)
        self.records.append((self.implementation.RecordReader(buffer, "t", 0, 0).take(len(rows)), rows))
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


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS, ids=["compiled", "python"])
def test_column_outlives_its_batch_and_the_other_columns(implementation: SimpleNamespace) -> None:
    rows = rows_of(1, 20, KEPT_BYTES_MIN)
    values = record_batch(columns_of(implementation, rows)).column("value")
    for seed in range(10):
        columns_of(implementation, rows_of(seed, 20, KEPT_BYTES_MIN))
    assert values.to_pylist() == [value for _, _, value in rows]


def test_freed_memory_is_reused() -> None:
    def address() -> int:
        values = columns_of(COMPILED, rows_of(1, 20, KEPT_BYTES_MIN)).values
        address: int = pyarrow.py_buffer(values).address
        return address

    assert len({address() for _ in range(20)}) < 20


@given(st.lists(sizes, min_size=2, max_size=5))
def test_concurrent_builders_have_separate_memory(chosen: list[tuple[int, int, int]]) -> None:
    builders = [(COMPILED.ColumnBuilder(), rows_of(*size)) for size in chosen]
    for builder, rows in builders:
        COMPILED.RecordReader(fetched(rows), "t", 0, 0).take_columns(len(rows), builder)
    for builder, rows in builders:
        assert read_back(record_batch(builder.finish())) == rows
