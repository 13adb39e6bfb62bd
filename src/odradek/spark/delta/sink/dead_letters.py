"""Dead letters: rows that could not be parsed, sent to a topic before the other rows are committed.

A DataFrame may have a struct column ``_dead``, null for valid rows. Its fields ``key``, ``value`` and
``headers`` become those of a record; every other field becomes a header ``dead.<field>``. Delivery is at
least once: a task or batch that runs again sends its dead letters again.
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
from odradek.spark.delta.errors import InvalidRows, SchemaMismatch, TableOptionError
from odradek.spark.delta.options import SinkOptions

COLUMN: Final = "_dead"
_HEADER_PREFIX: Final = "dead."
_RECORD_FIELDS: Final = frozenset({"key", "value", "headers"})
Headers = list[tuple[str, bytes | None]]


def check_frame(frame: StructType, options: SinkOptions) -> None:
    """Raise an error for a dead-letter column of the wrong type, or without a topic."""
    if COLUMN not in frame.names:
        return
    kind = frame[COLUMN].dataType
    if not isinstance(kind, StructType) or "value" not in kind.names:
        raise SchemaMismatch(
            f"column {COLUMN} must be a struct with at least a field value, got {kind.simpleString()}"
        )
    if options.dead_letter_topic is None:
        raise TableOptionError(f"a DataFrame with a column {COLUMN} requires the option deadLetterTopic")


def table_columns(frame: StructType) -> StructType:
    """Return the schema without the dead-letter column."""
    return StructType([field for field in frame if field.name != COLUMN])


def check_ratio(dead_count: int, row_count: int, ratio_max: float, topic: str | None) -> None:
    """Raise InvalidRows if a batch has too many dead letters: the pipeline is wrong, not the rows."""
    if dead_count > max(1, math.floor(ratio_max * row_count)):
        raise InvalidRows(
            f"{dead_count} of {row_count} rows of this batch are dead letters (sent to {topic}), more than"
            f" deadLetterMaxRatio={ratio_max:g} allows: correct the schema or the transformation and restart,"
            " or raise the option; nothing of this batch was committed to the table"
        )


class DeadLetterSender:
    """Sends the dead letters of one task, and returns the other rows."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._producer: Producer | None = None
        self._failure: BaseException | None = None
        self.count = 0

    def send_from(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Send the dead letters of a batch; return the valid rows without the column."""
        index = batch.schema.get_field_index(COLUMN)
        if index < 0:
            return batch
        dead = batch.column(index)
        rows = batch.remove_column(index)
        if dead.null_count == batch.num_rows:
            return rows
        is_valid = pc.is_null(dead)
        self._send(dead.filter(pc.invert(is_valid)))
        return rows.filter(is_valid)

    def finish(self) -> None:
        """Wait until all dead letters are acknowledged; raise InvalidRows if one fails."""
        if self._producer is None:
            return
        try:
            self._producer.flush()
        finally:
            self._producer.close()
        if self._failure is not None:
            raise InvalidRows(
                f"dead letters could not be sent to {self._options.dead_letter_topic} ({self._failure}):"
                " check the options deadLetterTopic and deadLetter.kafka.*; nothing of this batch was"
                " committed"
            ) from self._failure

    def _send(self, dead: pa.Array) -> None:
        topic = self._options.dead_letter_topic or ""
        if self._producer is None:
            self._producer = Producer(self._options.dead_letter_settings)
        for value, key, headers in records(dead):
            self._producer.send(topic, value, key=key, headers=headers, on_delivery=self._on_delivery)
        self.count += len(dead)

    def _on_delivery(self, _metadata: object, error: BaseException | None) -> None:
        if error is not None and self._failure is None:
            self._failure = error


def records(dead: pa.Array) -> Iterator[tuple[bytes | None, bytes | None, Headers]]:
    """Yield value, key and headers of each dead letter."""
    for row in dead.to_pylist():
        headers: Headers = [(header["key"], header["value"]) for header in row.get("headers") or ()]
        details = {
            name: value for name, value in row.items() if name not in _RECORD_FIELDS and value is not None
        }
        headers += [(f"{_HEADER_PREFIX}{name}", _as_text(value).encode()) for name, value in details.items()]
        yield _as_bytes(row["value"]), _as_bytes(row.get("key")), headers


def _as_bytes(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _as_text(value: object) -> str:
    if isinstance(value, datetime.datetime):
        timestamp = value.astimezone(datetime.UTC) if value.tzinfo is not None else value
        return timestamp.isoformat(timespec="milliseconds")
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
