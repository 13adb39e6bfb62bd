"""Sending rows of Arrow tables: the codec reads the columns without copying them.

Columns of other types (dictionaries of strings, timestamps in other units) are cast by Arrow first. Rows of
several topics are split by topic, each keeping its order.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Final

from odradek.client.arrow import load_pyarrow
from odradek.client.producer.deliveries import Deliveries
from odradek.client.producer.engine import ProducerEngine
from odradek.client.producer.send_many import BulkSend, SendArguments, send_columns
from odradek.model.client_errors import SerializationFailed
from odradek.records.client.producer import (
    BytesColumn,
    HeadersColumn,
    NumbersColumn,
    RecordColumns,
    partitions_for_keys,
)

if TYPE_CHECKING:
    import pyarrow

_COLUMNS: Final = ("value", "key", "topic", "partition", "timestamp", "headers")
_IGNORED: Final = frozenset({"offset"})
"""So that the result of ``poll_arrow`` can be sent unchanged."""


def send_table(
    engine: ProducerEngine,
    deliveries: Deliveries,
    table: pyarrow.Table | pyarrow.RecordBatch,
    topic: str | None,
) -> BulkSend:
    """Send a table or record batch; ``topic`` replaces the column."""
    arrow = load_pyarrow()
    if isinstance(table, arrow.RecordBatch):
        table = arrow.Table.from_batches([table])
    if not isinstance(table, arrow.Table):
        raise SerializationFailed(
            f"table must be a pyarrow.Table or pyarrow.RecordBatch, got {type(table).__name__}"
        )
    _check_names(table, topic)
    for name, rows in _by_topic(arrow, table, topic):
        for batch in rows.to_batches():
            if batch.num_rows:
                yield from _send_batch(engine, deliveries, name, arrow, batch)


def _check_names(table: pyarrow.Table, topic: str | None) -> None:
    names = set(table.column_names)
    unknown = sorted(names - set(_COLUMNS) - _IGNORED)
    if unknown:
        raise SerializationFailed(f"columns must be among {', '.join(_COLUMNS)}, got {', '.join(unknown)}")
    if not names & {"value", "key"}:
        raise SerializationFailed(f"table must have a column value or key, got {', '.join(sorted(names))}")
    if topic is None and "topic" not in names:
        raise SerializationFailed("topic is required: pass topic, or add a column topic")


def _by_topic(
    arrow: ModuleType, table: pyarrow.Table, topic: str | None
) -> Iterator[tuple[str, pyarrow.Table]]:
    if topic is not None:
        yield topic, table
        return
    from pyarrow import compute

    column = compute.cast(table.column("topic"), arrow.string())
    if column.null_count:
        raise SerializationFailed(f"column topic must not have nulls, got {column.null_count}")
    names = compute.unique(column).to_pylist()
    for name in names:
        yield name, table if len(names) == 1 else table.filter(compute.equal(column, name))


def _send_batch(
    engine: ProducerEngine, deliveries: Deliveries, topic: str, arrow: ModuleType, batch: pyarrow.RecordBatch
) -> BulkSend:
    try:
        columns, explicit = _columns(arrow, batch)
        keys = _bytes_column(arrow, _column(batch, "key"))
    except (ValueError, arrow.ArrowException) as error:
        raise SerializationFailed(f"columns cannot be converted to records: {error}") from error
    if engine.has_partitioner:
        yield from _one_by_one(deliveries, topic, columns, explicit)
        return
    metadata = engine.network.metadata.topics.get(topic)
    if metadata is None or not metadata.partitions:
        # The first row waits for metadata like a single record.
        first = columns.row(0)
        number = None if explicit is None else _number(partitions_for_keys(None, 1, explicit), 0)
        deliveries.add_one((yield SendArguments(topic, first[2], first[1], first[3], number, first[0])))
        if batch.num_rows > 1:
            yield from _send_batch(engine, deliveries, topic, arrow, batch.slice(1))
        return
    sticks = keys is None and explicit is None
    chosen = (
        None
        if sticks
        else partitions_for_keys(keys, len(metadata.partitions), explicit, ignore_keys=engine.ignores_keys)
    )
    yield from send_columns(engine.appender, deliveries, topic, columns, chosen)


def _one_by_one(
    deliveries: Deliveries, topic: str, columns: RecordColumns, explicit: NumbersColumn | None
) -> BulkSend:
    """Send each row as a single record, for a custom partitioner."""
    numbers = None if explicit is None else partitions_for_keys(None, 1, explicit)
    for row in range(columns.length):
        timestamp, key, value, headers = columns.row(row)
        number = None if numbers is None else _number(numbers, row)
        deliveries.add_one((yield SendArguments(topic, value, key, headers, number, timestamp)))


def _number(partitions: bytearray, row: int) -> int | None:
    partition = memoryview(partitions).cast("i")[row]
    return None if partition < 0 else partition


def _columns(arrow: ModuleType, batch: pyarrow.RecordBatch) -> tuple[RecordColumns, NumbersColumn | None]:
    explicit = _numbers_column(arrow, _column(batch, "partition"), arrow.int32())
    columns = RecordColumns(
        batch.num_rows,
        _bytes_column(arrow, _column(batch, "value")),
        _bytes_column(arrow, _column(batch, "key")),
        _numbers_column(arrow, _times(arrow, _column(batch, "timestamp")), arrow.int64()),
        _headers_column(arrow, _column(batch, "headers")),
    )
    return columns, explicit


def _column(batch: pyarrow.RecordBatch, name: str) -> pyarrow.Array | None:
    index = batch.schema.get_field_index(name)
    return None if index < 0 else batch.column(index)


def _times(arrow: ModuleType, array: pyarrow.Array | None) -> pyarrow.Array | None:
    """Return timestamps of any unit as milliseconds."""
    if array is not None and arrow.types.is_timestamp(array.type):
        return array.cast(arrow.timestamp("ms", array.type.tz), safe=False).view(arrow.int64())
    return array


def _numbers_column(
    arrow: ModuleType, array: pyarrow.Array | None, kind: pyarrow.DataType
) -> NumbersColumn | None:
    if array is None or arrow.types.is_null(array.type):
        return None
    plain = array if array.type == kind else array.cast(kind)
    validity, values = plain.buffers()
    return NumbersColumn(
        len(plain), plain.offset, validity, b"" if values is None else values, kind.bit_width // 8
    )


def _bytes_column(arrow: ModuleType, array: pyarrow.Array | None) -> BytesColumn | None:
    if array is None or arrow.types.is_null(array.type):
        return None
    types = arrow.types
    is_wide = types.is_large_binary(array.type) or types.is_large_string(array.type)
    if not is_wide and not types.is_binary(array.type) and not types.is_string(array.type):
        array = array.cast(arrow.binary())
    validity, ends, content = array.buffers()
    return BytesColumn(len(array), array.offset, validity, b"" if ends is None else ends, content, is_wide)


def _headers_column(arrow: ModuleType, array: pyarrow.Array | None) -> HeadersColumn | None:
    if array is None or arrow.types.is_null(array.type):
        return None
    if arrow.types.is_map(array.type):
        array = array.cast(arrow.list_(arrow.struct([("key", arrow.string()), ("value", arrow.binary())])))
    is_wide = arrow.types.is_large_list(array.type)
    if not is_wide and not arrow.types.is_list(array.type):
        raise ValueError(f"headers must be a list of structs with key and value, got {array.type}")
    pairs = array.values
    names, values = (_bytes_column(arrow, pairs.field(name)) for name in ("key", "value"))
    if names is None:
        return None
    if values is None:
        values = BytesColumn(len(pairs), 0, bytes(len(pairs) // 8 + 1), bytes(4 * len(pairs) + 4), b"")
    validity, ends = array.buffers()[:2]
    return HeadersColumn(
        len(array), array.offset, validity, b"" if ends is None else ends, names, values, is_wide
    )
