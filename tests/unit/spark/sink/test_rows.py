"""Columns of Spark as records: what is sent, and what is refused with the place named."""

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
from odradek.spark.sink.rows import InvalidRow, check_columns, sendable

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


def schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def test_columns_of_sparks_own_sink_and_a_timestamp_are_taken() -> None:
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
    ("columns", "topic", "words"),
    [
        ({"key": StringType()}, "t", "needs a column value .*the rows have key"),
        ({"value": StringType()}, None, "no topic: set the option topic"),
        ({"value": LongType()}, "t", "column value must be string or binary, not bigint"),
        ({"value": StringType(), "key": IntegerType()}, "t", "column key must be string or binary, not int"),
        ({"value": StringType(), "topic": BinaryType()}, None, "column topic must be string, not binary"),
        ({"value": StringType(), "partition": LongType()}, "t", "column partition must be int, not bigint"),
        ({"value": StringType(), "headers": StringType()}, "t", "column headers must be array<struct"),
        ({"value": StringType(), "timestamp": TimestampNTZType()}, "t", "column timestamp must be timestamp"),
    ],
)
def test_columns_that_are_no_records_are_refused_by_name(
    columns: dict[str, DataType], topic: str | None, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        check_columns(schema(**columns), topic)


def test_the_option_topic_wins_whatever_the_column_holds() -> None:
    check_columns(schema(value=StringType(), topic=LongType()), "t")
    batch = pyarrow.record_batch({"value": ["a"], "topic": pyarrow.array([None], pyarrow.string())})
    assert sendable(batch, "t", 0).schema.names == ["value"]


def test_texts_of_other_collations_and_lengths_are_texts() -> None:
    check_columns(schema(value=StringType("UNICODE_CI")), "t")


def test_other_columns_are_left_out() -> None:
    batch = pyarrow.record_batch({"offset": [1], "value": ["a"], "note": ["b"], "topic": ["t"]})
    assert sendable(batch, None, 0).schema.names == ["value", "topic"]


def test_a_row_without_a_topic_is_named() -> None:
    batch = pyarrow.record_batch({"value": ["a", "b" * 100], "topic": ["t", None], "key": [b"1", b"2"]})
    with pytest.raises(InvalidRow, match=r"row 41 of this task \(key b'2', value 'b{60}'…\) has no topic"):
        sendable(batch, None, 40)


def test_a_row_with_a_negative_partition_is_named() -> None:
    partitions = pyarrow.array([None, 0, -1], pyarrow.int32())
    batch = pyarrow.record_batch({"value": ["a", "b", "c"], "partition": partitions})
    with pytest.raises(InvalidRow, match=r"row 2 of this task \(value 'c'\) has partition -1: use null"):
        sendable(batch, "t", 0)


def test_rows_without_a_partition_are_left_to_their_keys() -> None:
    batch = pyarrow.record_batch({"value": ["a"], "partition": pyarrow.array([None], pyarrow.int32())})
    assert sendable(batch, "t", 0).num_rows == 1
