"""Partition columns: grouping of rows, and values as directory names and log entries. Pure.

Delta stores these values as text in its log, and not in the files. A null and an empty string are both null
there, as the Delta protocol requires.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa

_NULL_FOLDER: Final = "__HIVE_DEFAULT_PARTITION__"
Key = tuple[str | None, ...]


def split(batch: pa.RecordBatch, columns: tuple[str, ...]) -> Iterator[tuple[Key, pa.RecordBatch]]:
    """Yield the rows of each partition, without the partition columns."""
    if not columns:
        yield (), batch
        return
    data_columns = batch.select([name for name in batch.schema.names if name not in columns])
    keys = [str(number) for number in range(len(columns))]
    named = {key: batch.column(name) for key, name in zip(keys, columns, strict=True)}
    rows = pa.table({**named, "row": pa.array(range(batch.num_rows), pa.int64())})
    grouped = rows.group_by(keys, use_threads=False).aggregate([("row", "list")])
    for group in grouped.to_pylist():
        values = tuple(as_text(group[key]) for key in keys)
        yield values, data_columns.take(pa.array(group["row_list"], pa.int64()))


def as_text(value: Any) -> str | None:
    """Return a value as text of the Delta log."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.datetime):
        # Timestamps with a time zone are written in UTC, those without unchanged.
        timestamp = value if value.tzinfo is None else value.astimezone(datetime.UTC)
        return timestamp.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    return str(value)


def folder(columns: tuple[str, ...], key: Key) -> str:
    """Return the directory of a partition, such as ``day=2026-01-31/hour=7/``, URL-quoted."""
    return "".join(
        f"{quote(name, safe='')}={_NULL_FOLDER if value is None else quote(value, safe='')}/"
        for name, value in zip(columns, key, strict=True)
    )


def from_text(text: str | None, kind: pa.DataType) -> pa.Scalar:
    """Return the scalar of a column's type for a value of the log."""
    if text is None or text == "":
        return pa.scalar(None, kind)
    if pa.types.is_timestamp(kind):
        timestamp = datetime.datetime.fromisoformat(text)
        if timestamp.tzinfo is None and kind.tz is not None:
            timestamp = timestamp.replace(tzinfo=datetime.UTC)
        return pa.scalar(timestamp, kind)
    if pa.types.is_boolean(kind):
        return pa.scalar(text.lower() == "true", kind)
    if pa.types.is_binary(kind):
        return pa.scalar(text.encode(), kind)
    return pa.scalar(text, pa.string()).cast(kind)
