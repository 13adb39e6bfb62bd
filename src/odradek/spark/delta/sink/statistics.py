"""Delta statistics of a file (row count, null counts, minimum and maximum values), for data skipping.

They are taken from the statistics of the Parquet writer. A bound is omitted where it could exclude a row: for
long strings, for decimals that a JSON number cannot represent, and for floating-point columns with NaN (which
Spark sorts last and Parquet ignores).
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

# Delta's defaults.
_COLUMNS_MAX: Final = 32
_TEXT_CHARACTERS_MAX: Final = 32
_EXACT_DIGITS_MAX: Final = 15
Leaf = tuple[tuple[str, ...], pa.DataType, bool]


def add_statistics(metadata: pq.FileMetaData, schema: pa.Schema, with_nan: frozenset[str]) -> str:
    """Return the ``stats`` of an add action."""
    stats: dict[str, Any] = {
        "numRecords": metadata.num_rows,
        "minValues": {},
        "maxValues": {},
        "nullCount": {},
    }
    counted = [(index, leaf) for index, leaf in enumerate(leaves(schema)) if leaf[2]]
    for index, (path, kind, _) in counted[:_COLUMNS_MAX]:
        parts = [
            metadata.row_group(group).column(index).statistics for group in range(metadata.num_row_groups)
        ]
        if any(part is None or not part.has_null_count for part in parts):
            continue
        _put(stats["nullCount"], path, sum(part.null_count for part in parts))
        filled = [part for part in parts if part.has_min_max]
        is_whole = all(part.has_min_max or part.num_values == 0 for part in parts)
        if not filled or not is_whole or path[0] in with_nan:
            continue
        least, greatest = min(part.min for part in filled), max(part.max for part in filled)
        bounds = lower_bound(least, kind), upper_bound(greatest, kind)
        if None not in bounds:
            _put(stats["minValues"], path, bounds[0])
            _put(stats["maxValues"], path, bounds[1])
    return json.dumps(stats, separators=(",", ":"))


def leaves(schema: pa.Schema) -> Iterator[Leaf]:
    """Yield the leaf columns of the Parquet file in order: path, type, and True if one value per row."""
    for field in schema:
        yield from _leaves_of((field.name,), field.type, True)


def _leaves_of(path: tuple[str, ...], kind: pa.DataType, is_single: bool) -> Iterator[Leaf]:
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves_of((*path, field.name), field.type, is_single)
    elif pa.types.is_map(kind):
        yield from _leaves_of((*path, "key"), kind.key_type, False)
        yield from _leaves_of((*path, "value"), kind.item_type, False)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _leaves_of((*path, "element"), kind.value_type, False)
    else:
        yield path, kind, is_single


def lower_bound(value: Any, kind: pa.DataType) -> Any:
    """Return a JSON value that is not greater than any in the file; None if there is none."""
    if pa.types.is_string(kind) and isinstance(value, str):
        return value[:_TEXT_CHARACTERS_MAX]
    return _bound(value, kind)


def upper_bound(value: Any, kind: pa.DataType) -> Any:
    """Return a JSON value that is not less than any in the file; None if there is none."""
    if pa.types.is_string(kind) and isinstance(value, str):
        return value if len(value) <= _TEXT_CHARACTERS_MAX else None
    return _bound(value, kind)


def _bound(value: Any, kind: pa.DataType) -> Any:
    if pa.types.is_timestamp(kind) and isinstance(value, datetime.datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
        return text if kind.tz is None else f"{text}Z"
    if pa.types.is_floating(kind):
        return value if math.isfinite(value) else None
    if pa.types.is_decimal(kind) and isinstance(value, decimal.Decimal):
        return float(value) if kind.precision <= _EXACT_DIGITS_MAX else None
    if pa.types.is_date(kind):
        return value.isoformat()
    return value if pa.types.is_integer(kind) else None


def _put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value
