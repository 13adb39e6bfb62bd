"""Columns of the sink: validation, selection and errors."""

from __future__ import annotations

import pyarrow
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from odradek.model.errors import ConfigError
from odradek.spark.sink.rows import InvalidRow, check_columns, select_columns

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


def schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def test_columns_of_sparks_own_sink_and_timestamp_are_accepted() -> None:
    check_columns(
        schema(
            key=StringType(),
            value=BinaryType(),
            headers=HEADERS,
            topic=StringType(),
            partition=IntegerType(),
            timestamp=TimestampType(),
            offset=LongType(),
        ),
        None,
    )


@pytest.mark.parametrize(
    ("columns", "topic", "message"),
    [
        ({"key": StringType()}, "t", "requires a column value .*got columns key"),
        ({"value": StringType()}, None, "no topic: set the option topic"),
        ({"value": LongType()}, "t", "column value must be string or binary, got bigint"),
        ({"value": StringType(), "key": IntegerType()}, "t", "column key must be string or binary, got int"),
        ({"value": StringType(), "topic": BinaryType()}, None, "column topic must be string, got binary"),
        ({"value": StringType(), "partition": LongType()}, "t", "column partition must be int, got bigint"),
        ({"value": StringType(), "headers": StringType()}, "t", "column headers must be array<struct"),
        ({"value": StringType(), "timestamp": TimestampNTZType()}, "t", "column timestamp must be timestamp"),
    ],
)
def test_invalid_columns_are_rejected_by_name(
    columns: dict[str, DataType], topic: str | None, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        check_columns(schema(**columns), topic)


def test_option_topic_overrides_the_column() -> None:
    check_columns(schema(value=StringType(), topic=LongType()), "t")
    batch = pyarrow.record_batch({"value": ["a"], "topic": pyarrow.array([None], pyarrow.string())})
    assert select_columns(batch, "t", 0).schema.names == ["value"]


def test_strings_with_collation_are_strings() -> None:
    check_columns(schema(value=StringType("UNICODE_CI")), "t")


def test_other_columns_are_not_sent() -> None:
    batch = pyarrow.record_batch({"offset": [1], "value": ["a"], "note": ["b"], "topic": ["t"]})
    assert select_columns(batch, None, 0).schema.names == ["value", "topic"]


def test_row_without_topic_is_reported() -> None:
    batch = pyarrow.record_batch({"value": ["a", "b" * 100], "topic": ["t", None], "key": [b"1", b"2"]})
    with pytest.raises(InvalidRow, match=r"row 41 of this task \(key b'2', value 'b{60}'…\) has no topic"):
        select_columns(batch, None, 40)


def test_row_with_negative_partition_is_reported() -> None:
    partitions = pyarrow.array([None, 0, -1], pyarrow.int32())
    batch = pyarrow.record_batch({"value": ["a", "b", "c"], "partition": partitions})
    with pytest.raises(
        InvalidRow, match=r"partition must be >= 0, got -1 in row 2 of this task \(value 'c'\); use null"
    ):
        select_columns(batch, "t", 0)


def test_null_partition_is_left_to_the_partitioner() -> None:
    batch = pyarrow.record_batch({"value": ["a"], "partition": pyarrow.array([None], pyarrow.int32())})
    assert select_columns(batch, "t", 0).num_rows == 1
