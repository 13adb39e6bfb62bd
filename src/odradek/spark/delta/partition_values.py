"""Partition columns: rows put together by their values, and values as folder names and log entries. Pure.

Delta keeps these values as text in its log and leaves them out of the files. A null and an empty string are
both null there: that is the protocol's rule, not ours.
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
    """The rows of each partition, without the columns that name it."""
    if not columns:
        yield (), batch
        return
    kept = batch.select([name for name in batch.schema.names if name not in columns])
    keys = [str(number) for number in range(len(columns))]
    named = {key: batch.column(name) for key, name in zip(keys, columns, strict=True)}
    rows = pa.table({**named, "row": pa.array(range(batch.num_rows), pa.int64())})
    grouped = rows.group_by(keys, use_threads=False).aggregate([("row", "list")])
    for group in grouped.to_pylist():
        values = tuple(as_text(group[key]) for key in keys)
        yield values, kept.take(pa.array(group["row_list"], pa.int64()))


def as_text(value: Any) -> str | None:
    """A value as Delta's log spells it."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.datetime):
        # Times with a zone are told in UTC; those without one as they are.
        moment = value if value.tzinfo is None else value.astimezone(datetime.UTC)
        return moment.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    return str(value)


def folder(columns: tuple[str, ...], key: Key) -> str:
    """``day=2026-01-31/hour=7/``, with nothing in it that a file system could mistake."""
    return "".join(
        f"{quote(name, safe='')}={_NULL_FOLDER if value is None else quote(value, safe='')}/"
        for name, value in zip(columns, key, strict=True)
    )


def from_text(text: str | None, kind: pa.DataType) -> pa.Scalar:
    """A value of the log as a scalar of its column's type."""
    if text is None or text == "":
        return pa.scalar(None, kind)
    if pa.types.is_timestamp(kind):
        moment = datetime.datetime.fromisoformat(text)
        if moment.tzinfo is None and kind.tz is not None:
            moment = moment.replace(tzinfo=datetime.UTC)
        return pa.scalar(moment, kind)
    if pa.types.is_boolean(kind):
        return pa.scalar(text.lower() == "true", kind)
    if pa.types.is_binary(kind):
        return pa.scalar(text.encode(), kind)
    return pa.scalar(text, pa.string()).cast(kind)
