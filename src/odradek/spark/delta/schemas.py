"""A frame's columns against a table's: pure.

Delta writes its schema in the JSON of Spark's own types, so that one leads to the other without a table of
types. Invariants: a table that is made here has nullable columns at every depth, and no metadata that only
a query understands (watermarks, collations); the order of columns does not matter, their names and types
do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from odradek.spark.delta.errors import SchemaRefused, TableOptionError, TableUnsupported

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
    """How a frame differs from its table."""

    added: tuple[StructField, ...]
    missing: tuple[str, ...]
    retyped: tuple[tuple[str, str, str], ...]
    """Column, type in the table, type in the frame."""

    def __bool__(self) -> bool:
        return bool(self.added or self.missing or self.retyped)


def table_schema(frame: StructType, path: str) -> StructType:
    """The schema of a table for such a frame; columns that Delta cannot hold are refused by name."""
    wrong = [
        f"{field.name} ({field.dataType.simpleString()})" for field in frame if not _storable(field.dataType)
    ]
    if wrong:
        raise SchemaRefused(
            f"a Delta table cannot hold {', '.join(wrong)}, wanted for {path}: cast to another type or drop"
        )
    by_lower: dict[str, str] = {}
    for name in frame.names:
        if name.lower() in by_lower:
            raise SchemaRefused(
                f"columns {by_lower[name.lower()]} and {name} are the same to a Delta table: rename one"
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
    return StructType([StructField(field.name, plain(field.dataType), True) for field in struct])


def plain(kind: DataType) -> DataType:
    """The type without nullability and metadata."""
    if isinstance(kind, StructType):
        return _struct(kind)
    if isinstance(kind, ArrayType):
        return ArrayType(plain(kind.elementType), True)
    if isinstance(kind, MapType):
        return MapType(plain(kind.keyType), plain(kind.valueType), True)
    return kind


def compare(table: StructType, frame: StructType) -> SchemaChange:
    """What a frame adds, lacks and types in another way, whatever the order."""
    there = {field.name: field.dataType for field in table}
    here = {field.name: field.dataType for field in frame}
    return SchemaChange(
        added=tuple(field for field in frame if field.name not in there),
        missing=tuple(name for name in there if name not in here),
        retyped=tuple(
            (name, kind.simpleString(), here[name].simpleString())
            for name, kind in there.items()
            if name in here and plain(kind).json() != plain(here[name]).json()
        ),
    )


def check_change(change: SchemaChange, path: str, *, merge_schema: bool) -> None:
    """Refuse a frame that does not fit, with all its columns in one message."""
    added = (
        [] if merge_schema else [f"{field.name} {field.dataType.simpleString()}" for field in change.added]
    )
    missing = [] if merge_schema else list(change.missing)
    problems = [
        *_named("is new", added, "set the option mergeSchema=true to add it, or drop it"),
        *_named("is missing", missing, "add it as a null of its type, or set the option mergeSchema=true"),
        *[
            f"{name} is {was} in the table and {now} in the frame (cast it)"
            for name, was, now in change.retyped
        ],
    ]
    if problems:
        raise SchemaRefused(f"the frame does not fit the table at {path}: {'; '.join(problems)}")


def _named(what: str, columns: list[str], fix: str) -> Iterable[str]:
    return [f"{', '.join(columns)} {what} ({fix})"] if columns else []


def check_columns(frame: StructType, columns: Iterable[str], option: str) -> None:
    """Refuse an option that names a column the frame does not have."""
    for name in columns:
        if name not in frame.names:
            raise TableOptionError(
                f"option {option} names {name}, but the frame has only {', '.join(frame.names)}"
            )


def check_partitioning(frame: StructType, columns: tuple[str, ...]) -> None:
    """Refuse columns that cannot name folders."""
    check_columns(frame, columns, "partitionBy")
    for name in columns:
        kind = frame[name].dataType
        if kind.typeName() not in _PARTITIONING:
            raise TableOptionError(
                f"option partitionBy names {name}, whose type {kind.simpleString()} cannot name folders:"
                " choose a column of numbers, text, dates or times"
            )
    if columns and len(columns) == len(frame):
        raise TableOptionError("option partitionBy names every column: at least one must stay in the files")


def pruned(table: StructType, wanted: StructType, path: str) -> StructType:
    """The columns a reader was asked for, if the table has them in these types."""
    change = compare(table, wanted)
    wrong = [f"{field.name} is not in the table" for field in change.added]
    wrong += [f"{name} is {kind} and not {asked}" for name, kind, asked in change.retyped]
    if wrong:
        raise SchemaRefused(
            f"the schema given does not fit the table at {path}: {'; '.join(wrong)}; it has"
            f" {table.simpleString()}"
        )
    return wanted


def from_delta(schema_json: str) -> StructType:
    """Spark's type of a table's schema."""
    return StructType.fromJson(json.loads(schema_json))


def check_writable(schema: StructType, configuration: dict[str, str], path: str) -> None:
    """Refuse tables with rules that only their own writer can keep."""
    rules = [name for name in configuration if name.startswith("delta.constraints.")]
    rules += [field.name for field in schema if any(key in field.metadata for key in _REFUSED_METADATA)]
    if rules:
        raise TableUnsupported(
            f"the table at {path} has constraints or generated columns ({', '.join(rules)}), which this sink"
            " cannot check: write it with delta-rs or delta-spark, or drop them"
        )
    check_mapping(configuration, path)


def check_mapping(configuration: dict[str, Any], path: str) -> None:
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        raise TableUnsupported(
            f"the table at {path} maps its columns to other names in its files (delta.columnMapping.mode),"
            " which is not supported: copy it to a table without column mapping"
        )
