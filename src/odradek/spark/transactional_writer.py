"""The writer that writes each batch exactly once, whatever fails and however often: the marker transaction.

A task writes the rows of its partition of a batch, and a marker that says so, in one transaction of a
transactional id that belongs to the query's partition. Whoever takes the id over ends what others left open
*before* it looks at the marker, so a marker that is not there will not come from anybody else. A batch whose
marker is there is not written again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter

from odradek.client.blocking.producer import Producer
from odradek.client.values import OffsetAndMetadata
from odradek.model.client_errors import ClientError
from odradek.model.ids import TopicPartition
from odradek.spark.guards import ExactlyOnceRefused, refuse_unsafe_settings
from odradek.spark.kept_producers import Held, KeptProducers, kept_producers
from odradek.spark.marker_store import marker_topics, read_marker
from odradek.spark.markers import Marker, MarkerKey, check_replay
from odradek.spark.sink_failures import explained
from odradek.spark.sink_options import SinkOptions
from odradek.spark.sink_sending import TaskWritten, send_rows
from odradek.spark.worker_heap import settle
from odradek.spark.worker_socket import SentToWorkers

if TYPE_CHECKING:
    import pyarrow

_BATCH_ID = "streaming.sql.batchId"
_QUERY_ID = "sql.streaming.queryId"


class Unit(NamedTuple):
    """What is written once: a partition of a batch of a query."""

    key: MarkerKey
    batch_id: int


@dataclass(frozen=True)
class TransactionalStreamWriter(SentToWorkers, DataSourceStreamArrowWriter):
    """Writes each micro-batch of a query exactly once."""

    options: SinkOptions

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> TaskWritten:
        task = _checked_task(is_streaming=True)
        query, batch_id = task.getLocalProperty(_QUERY_ID), task.getLocalProperty(_BATCH_ID)
        if query is None or batch_id is None:
            raise ExactlyOnceRefused(
                "guarantee=exactly_once is not possible: this Spark tells tasks neither query nor batch"
            )
        unit = Unit(MarkerKey(query, task.partitionId()), int(batch_id))
        written = write_exactly_once(self.options, unit, iterator)
        settle()
        return written


@dataclass(frozen=True)
class TransactionalBatchWriter(SentToWorkers, DataSourceArrowWriter):
    """Writes a DataFrame exactly once under its ``sinkId``, however often it is run."""

    options: SinkOptions

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> TaskWritten:
        task = _checked_task(is_streaming=False)
        assert self.options.sink_id is not None
        return write_exactly_once(
            self.options, Unit(MarkerKey(self.options.sink_id, task.partitionId()), 0), iterator
        )


def _checked_task(*, is_streaming: bool) -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "Spark writes in tasks"
    refuse_unsafe_settings(task.getLocalProperty, is_streaming=is_streaming)
    return task


def write_exactly_once(
    options: SinkOptions,
    unit: Unit,
    batches: Iterator[pyarrow.RecordBatch],
    kept: KeptProducers = kept_producers,
) -> TaskWritten:
    """Write the rows of a unit unless they are written already."""
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        # The same batch has no rows when it comes again, either: there is nothing to guard.
        return TaskWritten(0)
    rows = chain([first], batches)
    try:
        held = kept.take(options, unit.key)
        if held is not None and not _claims(held, options, unit):
            kept.discard(held)
            held = None
        if held is None:
            held = _taken_over(options, unit.key, kept)
            if held.marker.covers(unit.batch_id):
                return _skipped(held, unit, rows, kept)
            held.producer.begin_transaction()
        return _written(held, options, unit, rows, kept)
    except ClientError as failed:
        raise explained(failed, options) from failed


def _taken_over(options: SinkOptions, key: MarkerKey, kept: KeptProducers) -> Held:
    """A new producer of the partition's id. First all others are fenced, then the marker is read: the other
    way round somebody could commit between the two."""
    held = kept.made(options, key)
    try:
        held.producer.init_transactions()
        marker_topics.ensure(options)
        held.marker = read_marker(options, key)
    except BaseException:
        kept.discard(held)
        raise
    return held


def _claims(held: Held, options: SinkOptions, unit: Unit) -> bool:
    """Begin with a producer that wrote an earlier batch, if the partition is still its own.

    It need not take the id over again. If nobody has since, nobody else has committed a marker: whoever does
    takes the id over first, and whoever had it before was fenced by this producer. If somebody has, then the
    broker refuses the marker that is sent here, before the first row, and the long way is gone: workers of
    Spark take turns with partitions, so this is no failure.
    """
    if held.marker.covers(unit.batch_id):
        return False
    try:
        held.producer.begin_transaction()
        _send_marker(held.producer, options, unit, Marker(unit.batch_id + 1))
    except ClientError:
        return False
    return True


def _send_marker(producer: Producer, options: SinkOptions, unit: Unit, marker: Marker) -> None:
    place = TopicPartition(options.marker_topic, 0)
    committed = OffsetAndMetadata(marker.next_batch, marker.metadata)
    producer.send_offsets_to_transaction({place: committed}, unit.key.group)


def _written(
    held: Held,
    options: SinkOptions,
    unit: Unit,
    rows: Iterator[pyarrow.RecordBatch],
    kept: KeptProducers,
) -> TaskWritten:
    try:
        written = send_rows(held.producer, rows, options.topic)
        held.marker = Marker(unit.batch_id + 1, written.rows_count)
        _send_marker(held.producer, options, unit, held.marker)
        held.producer.commit_transaction()
    except BaseException as failed:
        # Also when the rows themselves failed: readers should not wait for the transaction's timeout.
        kept.abort(held, failed)
        raise
    kept.put(held)
    return TaskWritten(written.rows_count, written.ranges)


def _skipped(held: Held, unit: Unit, rows: Iterator[pyarrow.RecordBatch], kept: KeptProducers) -> TaskWritten:
    """Let the rows go by: Spark wants all that it sends to be read."""
    kept.put(held)
    rows_count = sum(batch.num_rows for batch in rows)
    check_replay(held.marker, unit.key, unit.batch_id, rows_count)
    return TaskWritten(rows_count, is_skipped=True)
