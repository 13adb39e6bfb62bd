"""Comparison of a DataFrame's schema with a table's."""

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

from odradek.spark.delta.errors import SchemaMismatch, TableOptionError, TableUnsupported
from odradek.spark.delta.schemas import (
    check_change,
    check_partitioning,
    check_requested_schema,
    check_writable,
    compare_schemas,
    parse_schema,
    table_schema,
)


def struct(*fields: tuple[str, object]) -> StructType:
    return StructType([StructField(name, kind, True) for name, kind in fields])  # type: ignore[arg-type]


def test_table_schema_is_nullable_and_has_no_query_metadata() -> None:
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
    assert not compare_schemas(made, frame)


def test_unsupported_types_are_rejected_by_name() -> None:
    frame = struct(("a", NullType()), ("b", ArrayType(VariantType())), ("c", LongType()))
    with pytest.raises(SchemaMismatch, match=r"a \(void\), b \(array<variant>\)"):
        table_schema(frame, "t")
    with pytest.raises(SchemaMismatch, match="Day and day differ only in case"):
        table_schema(struct(("Day", LongType()), ("day", LongType())), "t")


def test_schema_differences_are_reported_with_fixes_in_any_order() -> None:
    table = struct(("a", LongType()), ("b", StringType()))
    assert not compare_schemas(table, struct(("b", StringType()), ("a", LongType())))
    change = compare_schemas(table, struct(("a", StringType()), ("c", LongType())))
    with pytest.raises(SchemaMismatch) as raised:
        check_change(change, "t", merge_schema=False)
    for message in (
        "c bigint is new",
        "mergeSchema=true",
        "b is missing",
        "a is bigint in the table and string",
    ):
        assert message in str(raised.value)
    with pytest.raises(SchemaMismatch) as retyped:
        check_change(change, "t", merge_schema=True)
    assert "is new" not in str(retyped.value)


def test_partition_columns_must_exist_and_have_a_supported_type() -> None:
    frame = struct(("a", LongType()), ("m", MapType(StringType(), LongType())))
    check_partitioning(frame, ("a",))
    for columns, message in (
        (("x",), "got x"),
        (("m",), "cannot be partitioned by"),
        (("a", "m"), "m, whose type"),
    ):
        with pytest.raises(TableOptionError, match=message):
            check_partitioning(frame, columns)
    with pytest.raises(TableOptionError, match="every column"):
        check_partitioning(struct(("a", LongType())), ("a",))


def test_requested_schema_must_match_the_table() -> None:
    table = struct(("a", LongType()), ("b", StringType()))
    assert check_requested_schema(table, struct(("b", StringType())), "t").names == ["b"]
    with pytest.raises(SchemaMismatch, match="c is not in the table; a must be bigint, got string"):
        check_requested_schema(table, struct(("c", LongType()), ("a", StringType())), "t")


def test_constraints_and_column_mapping_are_rejected() -> None:
    plain = parse_schema('{"type":"struct","fields":[]}')
    check_writable(plain, {"delta.columnMapping.mode": "none"}, "t")
    with pytest.raises(TableUnsupported, match="positive"):
        check_writable(plain, {"delta.constraints.positive": "a > 0"}, "t")
    with pytest.raises(TableUnsupported, match=r"columnMapping"):
        check_writable(plain, {"delta.columnMapping.mode": "name"}, "t")
    made = StructType([StructField("day", StringType(), True, {"delta.generationExpression": "x"})])
    with pytest.raises(TableUnsupported, match="day"):
        check_writable(made, {}, "t")
