"""Arrow record batches over the record codec's buffers, without copies.

They have the columns of the schema only, in its order, with exactly the Arrow types that Spark expects. A row
without headers has null there, as in Spark's own Kafka source.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import pyarrow
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from odradek.records.layout import Columns, ColumnSet

ROWS_MAX: Final = 10_000
"""Rows of one batch; Spark is no faster with more."""
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of one batch: bounds a worker's memory when values are large."""

_WANTED: Final = {
    "key": ColumnSet.KEYS,
    "value": ColumnSet.VALUES,
    "topic": ColumnSet(0),
    "partition": ColumnSet(0),
    "offset": ColumnSet.OFFSETS,
    "timestamp": ColumnSet.TIMESTAMPS_US,
    "timestampType": ColumnSet.TIMESTAMP_TYPES,
    "headers": ColumnSet.HEADERS,
}


class ArrowBatchBuilder:
    """Builds record batches from the rows of one partition."""

    def __init__(self, schema: StructType, topic: str, partition: int) -> None:
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._topic = topic
        self._partition = partition
        self.wanted = ColumnSet(0)
        for name in self._schema.names:
            self.wanted |= _WANTED[name]

    def batch(self, columns: Columns) -> pyarrow.RecordBatch:
        """Return a record batch of these columns, which have at most ``ROWS_MAX`` rows."""
        arrays = [self._array(field, columns) for field in self._schema]
        return pyarrow.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _array(self, field: pyarrow.Field, columns: Columns) -> pyarrow.Array:
        # Constant columns of a partition are built once, and sliced.
        if field.name == "topic":
            return repeated_topic(self._topic).slice(0, columns.row_count)
        if field.name == "partition":
            return repeated_partition(self._partition).slice(0, columns.row_count)
        return _ARRAY_BUILDERS[field.name](field.type, columns)


# Arrow imports pandas to build arrays from Python values, which takes longer than a micro-batch: these are
# built from buffers, like the others.


@lru_cache(maxsize=16)
def repeated_topic(topic: str) -> pyarrow.Array:
    text = topic.encode()
    ends = array("i", range(0, len(text) * (ROWS_MAX + 1), len(text)))
    return _array(pyarrow.string(), ROWS_MAX, None, ends, text * ROWS_MAX)


@lru_cache(maxsize=64)
def repeated_partition(partition: int) -> pyarrow.Array:
    return _array(pyarrow.int32(), ROWS_MAX, None, array("i", [partition]) * ROWS_MAX)


def _array(
    kind: pyarrow.DataType, count: int, *buffers: object, children: list[pyarrow.Array] | None = None
) -> pyarrow.Array:
    wrapped = [None if buffer is None else pyarrow.py_buffer(buffer) for buffer in buffers]
    return pyarrow.Array.from_buffers(kind, count, wrapped, children=children)


def _headers(kind: pyarrow.DataType, columns: Columns) -> pyarrow.Array:
    pair = kind.value_type
    count = len(columns.header_name_ends) // 4 - 1
    names = _array(pair.field(0).type, count, None, columns.header_name_ends, columns.header_names)
    validity, ends = columns.header_value_validity, columns.header_value_ends
    values = _array(pair.field(1).type, count, validity, ends, columns.header_values)
    pairs = _array(pair, count, None, children=[names, values])
    return _array(kind, columns.row_count, columns.header_validity, columns.header_ends, children=[pairs])


_ARRAY_BUILDERS: Final[dict[str, Callable[[pyarrow.DataType, Columns], pyarrow.Array]]] = {
    "key": lambda kind, of: _array(kind, of.row_count, of.key_validity, of.key_ends, of.keys),
    "value": lambda kind, of: _array(kind, of.row_count, of.value_validity, of.value_ends, of.values),
    "offset": lambda kind, of: _array(kind, of.row_count, None, of.offsets),
    "timestamp": lambda kind, of: _array(kind, of.row_count, None, of.timestamps),
    "timestampType": lambda kind, of: _array(kind, of.row_count, None, of.timestamp_types),
    "headers": _headers,
}
