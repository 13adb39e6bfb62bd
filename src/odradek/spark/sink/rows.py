"""Rows of Spark as records: which columns there must be, and what of a batch is sent.

The columns are those of Spark's own Kafka sink, and ``timestamp``. Others are left out, as there: so what the
source gives can be written as it is. No row becomes a Python object.
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
"""Types that each column may have, as Spark calls them."""
_SHOWN_BYTES_MAX: Final = 60


class InvalidRow(ValueError):
    """A row that cannot be sent; says which."""


def check_columns(schema: StructType, topic: str | None) -> None:
    """Raise ConfigError, with everything that is wrong, unless rows of this schema are records."""
    if problems := list(_problems(schema, topic)):
        raise ConfigError(problems)


def _problems(schema: StructType, topic: str | None) -> Iterator[str]:
    found = {field.name: _type_name(field.dataType) for field in schema.fields}
    if "value" not in found:
        columns = ", ".join(found) or "none"
        yield f"the sink needs a column value (string or binary); the rows have {columns}"
    if topic is None and "topic" not in found:
        yield "no topic: set the option topic, or add a column topic (string)"
    for name, allowed in COLUMN_TYPES.items():
        actual = found.get(name)
        if actual is None or actual in allowed or (name == "topic" and topic is not None):
            continue
        yield f"the column {name} must be {' or '.join(allowed)}, not {actual}: cast it, or drop it"


def _type_name(kind: Any) -> str:
    """A type as Spark writes it; lengths and collations of texts make no difference to their bytes."""
    name: str = kind.simpleString()
    return "string" if name.startswith(("string ", "varchar(", "char(")) else name


def sendable(batch: pyarrow.RecordBatch, topic: str | None, rows_before: int) -> pyarrow.RecordBatch:
    """The columns that are sent; ``rows_before`` is how many rows of the task came earlier."""
    names = [
        name for name in COLUMN_TYPES if name in batch.schema.names and (name != "topic" or topic is None)
    ]
    rows = batch.select(names)
    if topic is None and batch.column("topic").null_count:
        row = _first_null(batch.column("topic"))
        raise InvalidRow(
            f"{_row_words(batch, row, rows_before)} has no topic: its column topic is null; "
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
            f"{_row_words(batch, row, rows_before)} has partition {lowest}: "
            "use null to have its key choose one"
        )


def _first_null(column: pyarrow.Array) -> int:
    from pyarrow import compute

    found: int = compute.index(column.is_null(), value=True).as_py()
    return found


def _row_words(batch: pyarrow.RecordBatch, row: int, rows_before: int) -> str:
    shown = []
    for name in ("key", "value"):
        if name in batch.schema.names:
            cell = batch.column(name)[row].as_py()
            begins = cell if cell is None else cell[:_SHOWN_BYTES_MAX]
            shown.append(f"{name} {begins!r}{'…' if begins != cell else ''}")
    return f"row {rows_before + row} of this task ({', '.join(shown)})"
