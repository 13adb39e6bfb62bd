"""Arrow record batches of any selection of the source's columns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType
from tests.support.fetched_batches import fetches
from tests.support.record_codecs import COMPILED, IMPLEMENTATIONS

from odradek.records.batch import BatchBuilder
from odradek.spark.source.arrow_batches import ROWS_MAX, ArrowBatchBuilder, repeated_partition, repeated_topic
from odradek.spark.source.schema import source_schema

ALL_COLUMNS = source_schema(include_headers=True)

schemas = st.permutations(ALL_COLUMNS.fields).flatmap(
    lambda fields: st.integers(1, len(fields)).map(lambda count: StructType(fields[:count]))
)


def batch_of(codec: SimpleNamespace, schema: StructType, data: bytes, topic: str = "castle") -> Any:
    rows = ArrowBatchBuilder(schema, topic, 3)
    builder = codec.ColumnBuilder(rows.wanted)
    codec.RecordReader(data, topic, 3, 0).take_columns(ROWS_MAX, builder)
    return rows.batch(builder.finish())


def expected(name: str, record: Any) -> Any:
    """Return the cell of a record as in Spark's own source."""
    match name:
        case "timestamp":
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=record.timestamp)
        case "timestampType":
            return -1 if record.timestamp_type is None else int(record.timestamp_type)
        case "headers":
            return [{"key": key, "value": value} for key, value in record.headers] or None
    return getattr(record, name)


@given(schemas, fetches(), st.sampled_from(IMPLEMENTATIONS))
def test_any_selection_of_columns_matches_the_records(
    schema: StructType, data: bytes, codec: SimpleNamespace
) -> None:
    batch = batch_of(codec, schema, data)
    batch.validate(full=True)
    assert batch.schema.equals(to_arrow_schema(schema, timezone="UTC"), check_metadata=True)
    records = codec.RecordReader(data, "castle", 3, 0).take(ROWS_MAX)
    assert batch.num_rows == len(records)
    for name in schema.names:
        assert batch.column(name).to_pylist() == [expected(name, record) for record in records], name


def test_rows_without_headers_have_null_headers() -> None:
    builder = BatchBuilder()
    builder.append(1, None, None, [("a", b"1"), ("b", None)])
    builder.append(2, None, None)
    column = batch_of(COMPILED, ALL_COLUMNS, builder.build()).column("headers")
    assert column.to_pylist() == [[{"key": "a", "value": b"1"}, {"key": "b", "value": None}], None]
    assert column.null_count == 1


@pytest.mark.parametrize("count", [0, 1, ROWS_MAX])
def test_constant_columns_are_built_once_and_sliced(count: int) -> None:
    data = b""
    if count:
        builder = BatchBuilder()
        for _ in range(count):
            builder.append(1, None, b"")
        data = builder.build()
    batch = batch_of(COMPILED, ALL_COLUMNS, data, "größe")
    assert batch.column("topic").to_pylist() == ["größe"] * count
    assert batch.column("partition").to_pylist() == [3] * count
    assert repeated_topic("größe") is repeated_topic("größe")
    assert repeated_partition(3).buffers()[1].address == batch.column("partition").buffers()[1].address
