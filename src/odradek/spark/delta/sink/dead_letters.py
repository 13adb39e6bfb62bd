"""Rows that could not be understood: they leave the frame for a topic before the others are committed.

A frame may have a struct column ``_dead``, null for good rows. Its fields ``key``, ``value`` and
``headers`` become those of a record; every other field becomes a header ``dead.<field>``. Delivery is at
least once: a task or a batch that runs again sends its dead letters again.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from odradek import Producer
from odradek.spark.delta.errors import InvalidRows, SchemaRefused, TableOptionError
from odradek.spark.delta.options import SinkOptions

COLUMN: Final = "_dead"
_HEADER_PREFIX: Final = "dead."
_RECORD_FIELDS: Final = frozenset({"key", "value", "headers"})
Headers = list[tuple[str, bytes | None]]


def check_frame(frame: StructType, options: SinkOptions) -> None:
    """Refuse dead letters that have no topic, or no form."""
    if COLUMN not in frame.names:
        return
    kind = frame[COLUMN].dataType
    if not isinstance(kind, StructType) or "value" not in kind.names:
        raise SchemaRefused(
            f"column {COLUMN} is {kind.simpleString()}, but dead letters are a struct with at least a field"
            " value"
        )
    if options.dead_letter_topic is None:
        raise TableOptionError(
            f"the frame has a column {COLUMN}, but the option deadLetterTopic says not where dead letters go"
        )


def table_columns(frame: StructType) -> StructType:
    """The frame without what never reaches the table."""
    return StructType([field for field in frame if field.name != COLUMN])


def check_ratio(dead_count: int, row_count: int, ratio_max: float, topic: str | None) -> None:
    """Refuse a batch of mostly dead letters: then the pipeline is wrong, not the rows."""
    if dead_count > max(1, math.floor(ratio_max * row_count)):
        raise InvalidRows(
            f"{dead_count} of {row_count} rows of this batch are dead letters (sent to {topic}), more than"
            f" deadLetterMaxRatio={ratio_max:g} allows: correct the schema or the transformation and start"
            " again, or raise the option; nothing of this batch was committed to the table"
        )


class DeadLetters:
    """Sends the dead rows of one task, and passes on the others."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._producer: Producer | None = None
        self._failure: BaseException | None = None
        self.count = 0

    def without(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The good rows, without the column; the dead ones are on their way."""
        index = batch.schema.get_field_index(COLUMN)
        if index < 0:
            return batch
        dead = batch.column(index)
        good = batch.remove_column(index)
        if dead.null_count == batch.num_rows:
            return good
        is_good = pc.is_null(dead)
        self._send(dead.filter(pc.invert(is_good)))
        return good.filter(is_good)

    def finish(self) -> None:
        """Wait until each dead letter is acknowledged; the failure of one fails the task."""
        if self._producer is None:
            return
        try:
            self._producer.flush()
        finally:
            self._producer.close()
        if self._failure is not None:
            raise InvalidRows(
                f"dead letters could not be sent to {self._options.dead_letter_topic} ({self._failure}):"
                " check the options deadLetterTopic and deadLetter.kafka.*; nothing of this batch is"
                " committed"
            ) from self._failure

    def _send(self, dead: pa.Array) -> None:
        topic = self._options.dead_letter_topic or ""
        if self._producer is None:
            self._producer = Producer(self._options.dead_letter_settings)
        for value, key, headers in records(dead):
            self._producer.send(topic, value, key=key, headers=headers, on_delivery=self._hear)
        self.count += len(dead)

    def _hear(self, _metadata: object, error: BaseException | None) -> None:
        if error is not None and self._failure is None:
            self._failure = error


def records(dead: pa.Array) -> Iterator[tuple[bytes | None, bytes | None, Headers]]:
    """Value, key and headers of each dead row."""
    for row in dead.to_pylist():
        headers: Headers = [(header["key"], header["value"]) for header in row.get("headers") or ()]
        told = {
            name: value for name, value in row.items() if name not in _RECORD_FIELDS and value is not None
        }
        headers += [(f"{_HEADER_PREFIX}{name}", _as_text(value).encode()) for name, value in told.items()]
        yield _as_bytes(row["value"]), _as_bytes(row.get("key")), headers


def _as_bytes(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _as_text(value: object) -> str:
    if isinstance(value, datetime.datetime):
        moment = value.astimezone(datetime.UTC) if value.tzinfo is not None else value
        return moment.isoformat(timespec="milliseconds")
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
