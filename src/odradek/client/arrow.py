"""Records as pyarrow columns: arrays over the codec's buffers, without copying.

pyarrow is imported when it is first needed: clients work without it.
"""

from __future__ import annotations

from array import array as ints
from collections.abc import Callable
from functools import cache
from itertools import accumulate
from types import ModuleType
from typing import TYPE_CHECKING

from odradek.model.client_errors import InvalidState

if TYPE_CHECKING:
    import pyarrow

    from odradek.records.layout import Columns


def load_pyarrow() -> ModuleType:
    """Return the pyarrow module; raise InvalidState with the install command if it is missing."""
    try:
        import pyarrow
    except ImportError as missing:
        raise InvalidState(
            'pyarrow is required for Arrow records and is not installed; run pip install "odradek[arrow]"'
        ) from missing
    module: ModuleType = pyarrow
    return module


# Reading.


@cache
def record_schema() -> pyarrow.Schema:
    """Return the schema of ``poll_arrow``."""
    arrow = load_pyarrow()
    header = arrow.struct([arrow.field("key", arrow.string(), False), arrow.field("value", arrow.binary())])
    return arrow.schema(
        [
            arrow.field("key", arrow.binary()),
            arrow.field("value", arrow.binary()),
            arrow.field("topic", arrow.dictionary(arrow.int32(), arrow.string()), False),
            arrow.field("partition", arrow.int32(), False),
            arrow.field("offset", arrow.int64(), False),
            arrow.field("timestamp", arrow.timestamp("ms", "UTC"), False),
            arrow.field("headers", arrow.list_(arrow.field("item", header, False)), False),
        ]
    )


def record_batch(columns: Columns) -> pyarrow.RecordBatch:
    """Return a ``pyarrow.RecordBatch`` over the buffers of decoded columns."""
    arrow = load_pyarrow()
    count = columns.row_count
    schema = record_schema()

    def array(
        type_: pyarrow.DataType, length: int, *buffers: object, children: list[pyarrow.Array] | None = None
    ) -> pyarrow.Array:
        wrapped = [None if buffer is None else arrow.py_buffer(buffer) for buffer in buffers]
        return arrow.Array.from_buffers(type_, length, wrapped, children=children)

    def plain(name: str, values: object) -> pyarrow.Array:
        return array(schema.field(name).type, count, None, values)

    # Built from buffers: pyarrow.array of Python values would import pandas if it is installed.
    names = [topic.encode() for topic in columns.topics]
    ends = ints("i", accumulate(map(len, names), initial=0))
    topics = arrow.DictionaryArray.from_arrays(
        array(arrow.int32(), count, None, columns.topic_indices),
        array(arrow.string(), len(names), None, ends, b"".join(names)),
    )
    return arrow.RecordBatch.from_arrays(
        [
            array(arrow.binary(), count, columns.key_validity, columns.key_ends, columns.keys),
            array(arrow.binary(), count, columns.value_validity, columns.value_ends, columns.values),
            topics,
            plain("partition", columns.partitions),
            plain("offset", columns.offsets),
            plain("timestamp", columns.timestamps),
            _headers(arrow, schema.field("headers").type, columns, array),
        ],
        schema=schema,
    )


def _headers(
    arrow: ModuleType, type_: pyarrow.DataType, columns: Columns, array: Callable[..., pyarrow.Array]
) -> pyarrow.Array:
    count = len(columns.header_name_ends) // 4 - 1
    names = array(arrow.string(), count, None, columns.header_name_ends, columns.header_names)
    values = array(
        arrow.binary(),
        count,
        columns.header_value_validity,
        columns.header_value_ends,
        columns.header_values,
    )
    pairs = array(type_.value_type, count, None, children=[names, values])
    return array(type_, columns.row_count, None, columns.header_ends, children=[pairs])
