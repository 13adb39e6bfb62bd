"""Rows of Arrow tables on their way into batches: columns are lent to the codec, none is copied.

What comes in another form (dictionaries of texts, times in other units) is cast by Arrow first. Rows
of several topics are taken apart by topic, each keeping its order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from odradek.client.arrow import load_pyarrow
from odradek.client.producer.deliveries import Deliveries
from odradek.client.producer.engine import ProducerEngine
from odradek.client.producer.send_many import BulkSend, SendArguments, send_columns
from odradek.model.client_errors import SerializationFailed
from odradek.records.codec import (
    BytesColumn,
    HeadersColumn,
    NumbersColumn,
    RecordColumns,
    partitions_for_keys,
)

_COLUMNS: Final = ("value", "key", "topic", "partition", "timestamp", "headers")
_IGNORED: Final = frozenset({"offset"})
"""So that what ``poll_arrow`` gives can be sent as it is."""


def send_table(engine: ProducerEngine, deliveries: Deliveries, table: Any, topic: str | None) -> BulkSend:
    """Send a table or record batch; ``topic`` takes the place of the column."""
    arrow = load_pyarrow()
    if isinstance(table, arrow.RecordBatch):
        table = arrow.Table.from_batches([table])
    if not isinstance(table, arrow.Table):
        raise SerializationFailed(
            f"send_arrow takes a pyarrow table or record batch, not {type(table).__name__}"
        )
    _check_names(table, topic)
    for name, rows in _by_topic(arrow, table, topic):
        for batch in rows.to_batches():
            if batch.num_rows:
                yield from _pour_batch(engine, deliveries, name, arrow, batch)


def _check_names(table: Any, topic: str | None) -> None:
    given = set(table.column_names)
    unknown = sorted(given - set(_COLUMNS) - _IGNORED)
    if unknown:
        raise SerializationFailed(f"unknown columns {', '.join(unknown)}; there are {', '.join(_COLUMNS)}")
    if not given & {"value", "key"}:
        raise SerializationFailed("a table without columns value and key has nothing to send")
    if topic is None and "topic" not in given:
        raise SerializationFailed("no topic: give one, or a column topic")


def _by_topic(arrow: Any, table: Any, topic: str | None) -> Iterator[tuple[str, Any]]:
    if topic is not None:
        yield topic, table
        return
    from pyarrow import compute

    column = compute.cast(table.column("topic"), arrow.string())
    if column.null_count:
        raise SerializationFailed("the column topic has nulls")
    names = compute.unique(column).to_pylist()
    for name in names:
        yield name, table if len(names) == 1 else table.filter(compute.equal(column, name))


def _pour_batch(
    engine: ProducerEngine, deliveries: Deliveries, topic: str, arrow: Any, batch: Any
) -> BulkSend:
    try:
        columns, given = _columns(arrow, batch)
        keys = _bytes_column(arrow, _column(batch, "key"))
    except (ValueError, arrow.ArrowException) as wrong:
        raise SerializationFailed(f"these columns are no records: {wrong}") from wrong
    if engine.has_partitioner:
        yield from _one_by_one(deliveries, topic, columns, given)
        return
    metadata = engine.network.metadata.topics.get(topic)
    if metadata is None or not metadata.partitions:
        # The first row waits for metadata as a record of its own would.
        first = columns.row(0)
        number = None if given is None else _number(partitions_for_keys(None, 1, given), 0)
        deliveries.add_one((yield SendArguments(topic, first[2], first[1], first[3], number, first[0])))
        if batch.num_rows > 1:
            yield from _pour_batch(engine, deliveries, topic, arrow, batch.slice(1))
        return
    sticks = keys is None and given is None
    chosen = (
        None
        if sticks
        else partitions_for_keys(keys, len(metadata.partitions), given, ignore_keys=engine.ignores_keys)
    )
    yield from send_columns(engine.appender, deliveries, topic, columns, chosen)


def _one_by_one(
    deliveries: Deliveries, topic: str, columns: RecordColumns, given: NumbersColumn | None
) -> BulkSend:
    """A partitioner of the program's own wants to see each record."""
    numbers = None if given is None else partitions_for_keys(None, 1, given)
    for row in range(columns.length):
        timestamp, key, value, headers = columns.row(row)
        number = None if numbers is None else _number(numbers, row)
        deliveries.add_one((yield SendArguments(topic, value, key, headers, number, timestamp)))


def _number(partitions: bytearray, row: int) -> int | None:
    found = memoryview(partitions).cast("i")[row]
    return None if found < 0 else found


def _columns(arrow: Any, batch: Any) -> tuple[RecordColumns, NumbersColumn | None]:
    given = _numbers_column(arrow, _column(batch, "partition"), arrow.int32())
    columns = RecordColumns(
        batch.num_rows,
        _bytes_column(arrow, _column(batch, "value")),
        _bytes_column(arrow, _column(batch, "key")),
        _numbers_column(arrow, _times(arrow, _column(batch, "timestamp")), arrow.int64()),
        _headers_column(arrow, _column(batch, "headers")),
    )
    return columns, given


def _column(batch: Any, name: str) -> Any | None:
    index = batch.schema.get_field_index(name)
    return None if index < 0 else batch.column(index)


def _times(arrow: Any, array: Any | None) -> Any | None:
    """Milliseconds, from times of any unit."""
    if array is not None and arrow.types.is_timestamp(array.type):
        return array.cast(arrow.timestamp("ms", array.type.tz), safe=False).view(arrow.int64())
    return array


def _numbers_column(arrow: Any, array: Any | None, kind: Any) -> NumbersColumn | None:
    if array is None or arrow.types.is_null(array.type):
        return None
    plain = array if array.type == kind else array.cast(kind)
    validity, values = plain.buffers()
    return NumbersColumn(
        len(plain), plain.offset, validity, b"" if values is None else values, kind.bit_width // 8
    )


def _bytes_column(arrow: Any, array: Any | None) -> BytesColumn | None:
    if array is None or arrow.types.is_null(array.type):
        return None
    types = arrow.types
    is_wide = types.is_large_binary(array.type) or types.is_large_string(array.type)
    if not is_wide and not types.is_binary(array.type) and not types.is_string(array.type):
        array = array.cast(arrow.binary())
    validity, ends, content = array.buffers()
    return BytesColumn(len(array), array.offset, validity, b"" if ends is None else ends, content, is_wide)


def _headers_column(arrow: Any, array: Any | None) -> HeadersColumn | None:
    if array is None or arrow.types.is_null(array.type):
        return None
    if arrow.types.is_map(array.type):
        array = array.cast(arrow.list_(arrow.struct([("key", arrow.string()), ("value", arrow.binary())])))
    is_wide = arrow.types.is_large_list(array.type)
    if not is_wide and not arrow.types.is_list(array.type):
        raise ValueError(f"headers are a list of key and value, not {array.type}")
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
