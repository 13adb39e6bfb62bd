"""Partition values: grouping of rows, directories and log entries."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.spark.delta.partition_values import as_text, folder, from_text, split

_KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.string(), st.text(min_size=1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.bool_(), st.booleans()),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(datetime.UTC))),
    (pa.decimal128(20, 4), st.decimals(-(10**12), 10**12, places=4)),
]


@pytest.mark.parametrize(("kind", "values"), _KINDS, ids=[str(kind) for kind, _ in _KINDS])
def test_partition_value_round_trips(kind: pa.DataType, values: st.SearchStrategy[Any]) -> None:
    @given(values)
    def check(value: Any) -> None:
        assert from_text(as_text(value), kind).as_py() == value

    check()


def test_null_and_empty_string_are_null() -> None:
    assert as_text(None) is None
    assert as_text("") is None
    assert from_text(None, pa.int32()).as_py() is None
    assert from_text("", pa.string()).as_py() is None


def test_partition_directories_are_quoted() -> None:
    assert folder(("day", "a/b"), ("2026-01-31", None)) == "day=2026-01-31/a%2Fb=__HIVE_DEFAULT_PARTITION__/"
    assert folder(("x",), ("../é: 1",)).count("/") == 1
    assert folder((), ()) == ""


def test_rows_are_grouped_by_partition_values() -> None:
    batch = pa.record_batch(
        {
            "day": pa.array(["a", None, "a", "b"]),
            "n": pa.array([decimal.Decimal("1.5"), None, decimal.Decimal("1.5"), None], pa.decimal128(5, 1)),
            "row": pa.array([1, 2, 3, 4]),
        }
    )
    rows_by_key = {key: rows.to_pydict() for key, rows in split(batch, ("day", "n"))}
    assert rows_by_key == {
        ("a", "1.5"): {"row": [1, 3]},
        (None, None): {"row": [2]},
        ("b", None): {"row": [4]},
    }
    assert [key for key, _ in split(batch, ())] == [()]
