"""A frame's columns against a table's."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from odradek.spark.delta.errors import SchemaRefused, TableOptionError, TableUnsupported
from odradek.spark.delta.schemas import (
    check_change,
    check_partitioning,
    check_writable,
    compare,
    from_delta,
    pruned,
    table_schema,
)


def struct(*fields: tuple[str, object]) -> StructType:
    return StructType([StructField(name, kind, True) for name, kind in fields])  # type: ignore[arg-type]


def test_a_table_is_nullable_at_every_depth_and_keeps_no_metadata_of_a_query() -> None:
    inner = StructType([StructField("x", LongType(), False)])
    frame = StructType(
        [
            StructField("at", TimestampType(), False, {"spark.watermarkDelayMs": 1000}),
            StructField("many", ArrayType(inner, False), False),
            StructField("named", MapType(StringType(), inner, False), False),
        ]
    )
    made = table_schema(frame, "t")
    assert "false" not in made.json()
    assert "watermark" not in made.json()
    assert made.names == frame.names
    assert not compare(made, frame)


def test_types_that_delta_cannot_hold_are_refused_by_name() -> None:
    frame = struct(("a", NullType()), ("b", ArrayType(VariantType())), ("c", LongType()))
    with pytest.raises(SchemaRefused, match=r"a \(void\), b \(array<variant>\)"):
        table_schema(frame, "t")
    with pytest.raises(SchemaRefused, match="Day and day are the same"):
        table_schema(struct(("Day", LongType()), ("day", LongType())), "t")


def test_order_does_not_matter_and_each_difference_is_named_with_its_fix() -> None:
    table = struct(("a", LongType()), ("b", StringType()))
    assert not compare(table, struct(("b", StringType()), ("a", LongType())))
    change = compare(table, struct(("a", StringType()), ("c", LongType())))
    with pytest.raises(SchemaRefused) as refusal:
        check_change(change, "t", merge_schema=False)
    for words in (
        "c bigint is new",
        "mergeSchema=true",
        "b is missing",
        "a is bigint in the table and string",
    ):
        assert words in str(refusal.value)
    with pytest.raises(SchemaRefused) as retyped:
        check_change(change, "t", merge_schema=True)
    assert "is new" not in str(retyped.value)


def test_partition_columns_must_be_there_and_fit_to_name_folders() -> None:
    frame = struct(("a", LongType()), ("m", MapType(StringType(), LongType())))
    check_partitioning(frame, ("a",))
    for columns, words in (
        (("x",), "names x"),
        (("m",), "cannot name folders"),
        (("a", "m"), "m, whose type"),
    ):
        with pytest.raises(TableOptionError, match=words):
            check_partitioning(frame, columns)
    with pytest.raises(TableOptionError, match="every column"):
        check_partitioning(struct(("a", LongType())), ("a",))


def test_a_reader_may_ask_for_some_columns_in_their_types() -> None:
    table = struct(("a", LongType()), ("b", StringType()))
    assert pruned(table, struct(("b", StringType())), "t").names == ["b"]
    with pytest.raises(SchemaRefused, match="c is not in the table; a is bigint and not string"):
        pruned(table, struct(("c", LongType()), ("a", StringType())), "t")


def test_rules_that_only_another_writer_can_keep_are_refused() -> None:
    plain = from_delta('{"type":"struct","fields":[]}')
    check_writable(plain, {"delta.columnMapping.mode": "none"}, "t")
    with pytest.raises(TableUnsupported, match="positive"):
        check_writable(plain, {"delta.constraints.positive": "a > 0"}, "t")
    with pytest.raises(TableUnsupported, match=r"columnMapping"):
        check_writable(plain, {"delta.columnMapping.mode": "name"}, "t")
    made = StructType([StructField("day", StringType(), True, {"delta.generationExpression": "x"})])
    with pytest.raises(TableUnsupported, match="day"):
        check_writable(made, {}, "t")
