"""Sending many records in one call: chunks go to the appender, the rest is sent one by one.

Generators that yield the arguments of each single ``send`` and receive its delivery: the asyncio and the
blocking producer, which wait in different ways, share the rest.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from odradek.client.producer.deliveries import Deliveries
from odradek.client.producer.record_transforms import RecordTransforms
from odradek.records.client.producer import Delivery, RecordAppender, RecordColumns

_CHUNK: Final = 8192
"""Number of records taken from an iterable at a time."""


class SendArguments(NamedTuple):
    """The arguments of one ``send``."""

    topic: str
    value: Any
    key: Any = None
    headers: Any = None
    partition: int | None = None
    timestamp_ms: int | None = None


BulkSend = Generator[SendArguments, Delivery, None]


def send_values(
    appender: RecordAppender,
    transforms: RecordTransforms,
    deliveries: Deliveries,
    topic: str,
    values: Iterable[object],
    keys: Iterable[object] | None,
    partition: int | None,
    timestamp_ms: int | None,
) -> BulkSend:
    """Send values, each with the key at the same index."""
    for chunk, chunk_keys in _chunks(values, keys):
        if transforms.interceptors:
            yield from _one_by_one(deliveries, topic, chunk, chunk_keys, partition, timestamp_ms)
            continue
        serialized, serialized_keys = transforms.serialize_columns(topic, chunk, chunk_keys)
        row, end = 0, len(serialized)
        while row < end:
            row, ranges = appender.send_many(topic, serialized, serialized_keys, partition, timestamp_ms, row)
            deliveries.add(ranges)
            if row < end:
                key = None if serialized_keys is None else serialized_keys[row]
                deliveries.add_one(
                    (yield SendArguments(topic, serialized[row], key, None, partition, timestamp_ms))
                )
                row += 1


def _one_by_one(
    deliveries: Deliveries,
    topic: str,
    values: Sequence[object],
    keys: Sequence[object] | None,
    partition: int | None,
    timestamp_ms: int | None,
) -> BulkSend:
    for index, value in enumerate(values):
        key = None if keys is None else keys[index]
        deliveries.add_one((yield SendArguments(topic, value, key, None, partition, timestamp_ms)))


def send_columns(
    appender: RecordAppender,
    deliveries: Deliveries,
    topic: str,
    columns: RecordColumns,
    partitions: bytearray | None,
) -> BulkSend:
    """Send rows of columns; ``partitions`` has an int32 per row, -1 for the sticky partition."""
    chosen = None if partitions is None else memoryview(partitions).cast("i")
    row, end = 0, columns.length
    while row < end:
        row, ranges = appender.append_columns(topic, columns, partitions, row, end)
        deliveries.add(ranges)
        if row < end:
            timestamp, key, value, headers = columns.row(row)
            number = -1 if chosen is None else chosen[row]
            partition = None if number < 0 else number
            deliveries.add_one((yield SendArguments(topic, value, key, headers, partition, timestamp)))
            row += 1


def _chunks(
    values: Iterable[object], keys: Iterable[object] | None
) -> Iterable[tuple[Sequence[object], Sequence[object] | None]]:
    if isinstance(values, list | tuple) and (keys is None or isinstance(keys, list | tuple)):
        if keys is not None and len(keys) != len(values):
            raise ValueError(f"keys must be as many as values ({len(values)}), got {len(keys)}")
        yield values, keys
        return
    value_iterator, key_iterator = iter(values), None if keys is None else iter(keys)
    while chunk := list(islice(value_iterator, _CHUNK)):
        chunk_keys = None if key_iterator is None else list(islice(key_iterator, len(chunk)))
        if chunk_keys is not None and len(chunk_keys) != len(chunk):
            raise ValueError("keys must be as many as values, got fewer keys")
        yield chunk, chunk_keys
