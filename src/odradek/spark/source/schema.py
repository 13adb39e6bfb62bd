"""Columns of the topic source: those of Spark's own Kafka source. A user's schema selects among them."""

from __future__ import annotations

from difflib import get_close_matches

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from odradek.model.errors import ConfigError

HEADERS = "headers"

COLUMNS: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    HEADERS: ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
}


def source_schema(include_headers: bool) -> StructType:
    """Return all columns; headers only if requested."""
    return StructType(
        [StructField(name, kind) for name, kind in COLUMNS.items() if include_headers or name != HEADERS]
    )


def check_schema(schema: StructType) -> None:
    """Raise ConfigError unless the schema consists of the source's columns, in any order."""
    problems = [problem for column in schema.fields if (problem := _problem(column)) is not None]
    names = [column.name for column in schema.fields]
    problems += [f"duplicate column {name}" for name in sorted(set(names)) if names.count(name) > 1]
    if problems:
        columns = ", ".join(f"{name} {kind.simpleString()}" for name, kind in COLUMNS.items())
        raise ConfigError([*problems, f"the columns of this source are: {columns}"])


def _problem(column: StructField) -> str | None:
    kind = COLUMNS.get(column.name)
    if kind is None:
        nearest = get_close_matches(column.name, COLUMNS, 1)
        hint = f"; did you mean {nearest[0]}?" if nearest else ""
        return f"the source has no column {column.name}{hint}"
    if column.dataType.simpleString() != kind.simpleString():
        return f"column {column.name} must be {kind.simpleString()}, got {column.dataType.simpleString()}"
    return None
