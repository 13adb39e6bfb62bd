"""Records as columns of pyarrow: buffers of the codec put into arrays, and none of them copied.

pyarrow is imported when it is first needed: clients work without it.
"""

from __future__ import annotations

from array import array as ints
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from odradek.model.client_errors import InvalidState

if TYPE_CHECKING:
    from odradek.records.codec import Columns


def load_pyarrow() -> Any:
    """The module, or an error that says how to get it."""
    try:
        import pyarrow
    except ImportError as missing:
        raise InvalidState(
            'records as columns need pyarrow, which is not installed: pip install "odradek[arrow]"'
        ) from missing
    return pyarrow


# Reading.


@cache
def record_schema() -> Any:
    """The columns that ``poll_arrow`` gives."""
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


def record_batch(columns: Columns) -> Any:
    """A ``pyarrow.RecordBatch`` over the buffers of decoded columns."""
    arrow = load_pyarrow()
    count = columns.row_count
    schema = record_schema()

    def array(type_: Any, length: int, *buffers: Any, children: list[Any] | None = None) -> Any:
        wrapped = [None if each is None else arrow.py_buffer(each) for each in buffers]
        return arrow.Array.from_buffers(type_, length, wrapped, children=children)

    def plain(name: str, values: Any) -> Any:
        return array(schema.field(name).type, count, None, values)

    # Arrow makes arrays of Python values with a look at pandas, which is imported for that if it is there.
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


def _headers(arrow: Any, type_: Any, columns: Columns, array: Any) -> Any:
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
