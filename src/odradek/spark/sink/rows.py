"""Columns of the sink: validation of a schema, and selection of the columns to send.

The columns are those of Spark's own Kafka sink, and ``timestamp``. Other columns are ignored, as in Spark, so
that the source's rows can be written unchanged. Rows are not converted to Python objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from odradek.model.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

_TEXT_OR_BYTES: Final = ("string", "binary")
_HEADERS: Final = "array<struct<key:string,value:binary>>"
COLUMN_TYPES: Final = {
    "value": _TEXT_OR_BYTES,
    "key": _TEXT_OR_BYTES,
    "headers": (_HEADERS,),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}
"""Allowed types of each column, in Spark's names."""
_SHOWN_BYTES_MAX: Final = 60


class InvalidRow(ValueError):
    """Raised for a row that cannot be sent."""


def check_columns(schema: StructType, topic: str | None) -> None:
    """Raise ConfigError with all problems unless rows of this schema can be sent."""
    if problems := list(_problems(schema, topic)):
        raise ConfigError(problems)


def _problems(schema: StructType, topic: str | None) -> Iterator[str]:
    types = {field.name: _type_name(field.dataType) for field in schema.fields}
    if "value" not in types:
        columns = ", ".join(types) or "none"
        yield f"the sink requires a column value (string or binary), got columns {columns}"
    if topic is None and "topic" not in types:
        yield "no topic: set the option topic, or add a column topic (string)"
    for name, allowed in COLUMN_TYPES.items():
        actual = types.get(name)
        if actual is None or actual in allowed or (name == "topic" and topic is not None):
            continue
        yield f"the column {name} must be {' or '.join(allowed)}, got {actual}: cast it, or drop it"


def _type_name(kind: Any) -> str:
    """Return Spark's name of a type, without the length or collation of strings."""
    name: str = kind.simpleString()
    return "string" if name.startswith(("string ", "varchar(", "char(")) else name


def select_columns(batch: pyarrow.RecordBatch, topic: str | None, rows_before: int) -> pyarrow.RecordBatch:
    """Return the columns to send; ``rows_before`` is the number of earlier rows of the task."""
    names = [
        name for name in COLUMN_TYPES if name in batch.schema.names and (name != "topic" or topic is None)
    ]
    rows = batch.select(names)
    if topic is None and batch.column("topic").null_count:
        row = _first_null(batch.column("topic"))
        raise InvalidRow(
            f"{_describe_row(batch, row, rows_before)} has no topic: its column topic is null; "
            "fill it, or set the option topic"
        )
    if "partition" in names:
        _check_partitions(batch, rows_before)
    return rows


def _check_partitions(batch: pyarrow.RecordBatch, rows_before: int) -> None:
    from pyarrow import compute

    column = batch.column("partition")
    lowest = compute.min(column).as_py()
    if lowest is not None and lowest < 0:
        row = compute.index(column, lowest).as_py()
        raise InvalidRow(
            f"partition must be >= 0, got {lowest} in {_describe_row(batch, row, rows_before)}; "
            "use null to have the partitioner choose"
        )


def _first_null(column: pyarrow.Array) -> int:
    from pyarrow import compute

    index: int = compute.index(column.is_null(), value=True).as_py()
    return index


def _describe_row(batch: pyarrow.RecordBatch, row: int, rows_before: int) -> str:
    shown = []
    for name in ("key", "value"):
        if name in batch.schema.names:
            cell = batch.column(name)[row].as_py()
            start = cell if cell is None else cell[:_SHOWN_BYTES_MAX]
            shown.append(f"{name} {start!r}{'…' if start != cell else ''}")
    return f"row {rows_before + row} of this task ({', '.join(shown)})"
