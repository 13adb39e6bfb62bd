"""Comparison of a DataFrame's schema with a table's. Pure.

Delta stores its schema in the JSON form of Spark's types, so no type mapping is needed. Invariants: a table
that is created here has nullable columns at every depth, and no metadata that is specific to a query
(watermarks, collations); the names and types of columns matter, their order does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from odradek.spark.delta.errors import SchemaMismatch, TableOptionError, TableUnsupported

_STORABLE: Final = frozenset(
    {
        "boolean", "byte", "short", "integer", "long", "float", "double", "decimal", "string", "binary",
        "date", "timestamp", "timestamp_ntz",
    }
)  # fmt: skip
_PARTITIONING: Final = _STORABLE - {"float", "double", "binary"}
_REFUSED_METADATA: Final = ("delta.invariants", "delta.generationExpression", "delta.identity.start")


@dataclass(frozen=True)
class SchemaChange:
    """Differences of a DataFrame's schema from its table's."""

    added: tuple[StructField, ...]
    missing: tuple[str, ...]
    retyped: tuple[tuple[str, str, str], ...]
    """Column, type in the table, type in the DataFrame."""

    def __bool__(self) -> bool:
        return bool(self.added or self.missing or self.retyped)


def table_schema(frame: StructType, path: str) -> StructType:
    """Return the table schema of a DataFrame; raise SchemaMismatch for columns that Delta cannot store."""
    unsupported = [
        f"{field.name} ({field.dataType.simpleString()})" for field in frame if not _storable(field.dataType)
    ]
    if unsupported:
        raise SchemaMismatch(
            f"the table at {path} cannot store {', '.join(unsupported)}: cast to another type, or drop"
        )
    by_lower: dict[str, str] = {}
    for name in frame.names:
        if name.lower() in by_lower:
            raise SchemaMismatch(
                f"columns {by_lower[name.lower()]} and {name} differ only in case, which Delta ignores:"
                " rename one"
            )
        by_lower[name.lower()] = name
    return _struct(frame)


def _storable(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return len(kind) > 0 and all(_storable(field.dataType) for field in kind)
    if isinstance(kind, ArrayType):
        return _storable(kind.elementType)
    if isinstance(kind, MapType):
        return _storable(kind.keyType) and _storable(kind.valueType)
    return kind.typeName() in _STORABLE


def _struct(struct: StructType) -> StructType:
    return StructType([StructField(field.name, all_nullable(field.dataType), True) for field in struct])


def all_nullable(kind: DataType) -> DataType:
    """Return the type with all fields nullable and without metadata."""
    if isinstance(kind, StructType):
        return _struct(kind)
    if isinstance(kind, ArrayType):
        return ArrayType(all_nullable(kind.elementType), True)
    if isinstance(kind, MapType):
        return MapType(all_nullable(kind.keyType), all_nullable(kind.valueType), True)
    return kind


def compare_schemas(table: StructType, frame: StructType) -> SchemaChange:
    """Return the columns that a DataFrame adds, lacks and has with another type, in any order."""
    table_types = {field.name: field.dataType for field in table}
    frame_types = {field.name: field.dataType for field in frame}
    return SchemaChange(
        added=tuple(field for field in frame if field.name not in table_types),
        missing=tuple(name for name in table_types if name not in frame_types),
        retyped=tuple(
            (name, kind.simpleString(), frame_types[name].simpleString())
            for name, kind in table_types.items()
            if name in frame_types and all_nullable(kind).json() != all_nullable(frame_types[name]).json()
        ),
    )


def check_change(change: SchemaChange, path: str, *, merge_schema: bool) -> None:
    """Raise SchemaMismatch with all columns that do not match."""
    added = (
        [] if merge_schema else [f"{field.name} {field.dataType.simpleString()}" for field in change.added]
    )
    missing = [] if merge_schema else list(change.missing)
    problems = [
        *_problem("is new", added, "set the option mergeSchema=true to add it, or drop it"),
        *_problem("is missing", missing, "add it as a null of its type, or set the option mergeSchema=true"),
        *[
            f"{name} is {table_type} in the table and {frame_type} in the DataFrame (cast it)"
            for name, table_type, frame_type in change.retyped
        ],
    ]
    if problems:
        raise SchemaMismatch(f"the DataFrame does not match the table at {path}: {'; '.join(problems)}")


def _problem(problem: str, columns: list[str], fix: str) -> Iterable[str]:
    return [f"{', '.join(columns)} {problem} ({fix})"] if columns else []


def check_columns(frame: StructType, columns: Iterable[str], option: str) -> None:
    """Raise TableOptionError if an option names a column that the DataFrame does not have."""
    for name in columns:
        if name not in frame.names:
            raise TableOptionError(
                f"option {option} must name columns of the DataFrame ({', '.join(frame.names)}), got {name}"
            )


def check_partitioning(frame: StructType, columns: tuple[str, ...]) -> None:
    """Raise TableOptionError for invalid partition columns."""
    check_columns(frame, columns, "partitionBy")
    for name in columns:
        kind = frame[name].dataType
        if kind.typeName() not in _PARTITIONING:
            raise TableOptionError(
                f"option partitionBy names {name}, whose type {kind.simpleString()} cannot be partitioned by:"
                " choose a column of integers, strings, dates or timestamps"
            )
    if columns and len(columns) == len(frame):
        raise TableOptionError("option partitionBy must not name every column: files need at least one")


def check_requested_schema(table: StructType, requested: StructType, path: str) -> StructType:
    """Return the requested columns; raise SchemaMismatch unless the table has them with these types."""
    change = compare_schemas(table, requested)
    problems = [f"{field.name} is not in the table" for field in change.added]
    problems += [f"{name} must be {kind}, got {got}" for name, kind, got in change.retyped]
    if problems:
        raise SchemaMismatch(
            f"the requested schema does not match the table at {path}: {'; '.join(problems)}; it has"
            f" {table.simpleString()}"
        )
    return requested


def parse_schema(schema_json: str) -> StructType:
    """Return the Spark type of a table's schema."""
    return StructType.fromJson(json.loads(schema_json))


def check_writable(schema: StructType, configuration: dict[str, str], path: str) -> None:
    """Raise TableUnsupported for constraints that this sink cannot enforce."""
    rules = [name for name in configuration if name.startswith("delta.constraints.")]
    rules += [field.name for field in schema if any(key in field.metadata for key in _REFUSED_METADATA)]
    if rules:
        raise TableUnsupported(
            f"the table at {path} has constraints or generated columns ({', '.join(rules)}), which this sink"
            " does not support: write it with delta-rs or delta-spark, or drop them"
        )
    check_mapping(configuration, path)


def check_mapping(configuration: dict[str, Any], path: str) -> None:
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        raise TableUnsupported(
            f"the table at {path} uses column mapping (delta.columnMapping.mode), which is not supported:"
            " copy it to a table without column mapping"
        )
