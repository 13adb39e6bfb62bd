"""The writer that writes each batch exactly once, whatever fails and however often: the marker transaction.

A task writes the rows of its partition of a batch, and a marker that says so, in one transaction of a
transactional id that belongs to the query's partition. Whoever takes the id over ends what others left open
*before* it looks at the marker, so a marker that is not there will not come from anybody else. A batch whose
marker is there is not written again.

A batch that another attempt has written in part is committed by the driver, once all tasks are done and it
is sure that they are the same tasks as before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter

from odradek.client.blocking.producer import Producer
from odradek.client.values import OffsetAndMetadata
from odradek.model.client_errors import ClientError
from odradek.model.ids import TopicPartition
from odradek.spark.options.sink_options import MissingMarkers, SinkOptions
from odradek.spark.sink.errors import explained
from odradek.spark.sink.exactly_once_settings import ExactlyOnceUnsupported, check_exactly_once_settings
from odradek.spark.sink.marker_store import describe_transaction, marker_topics, read_marker
from odradek.spark.sink.markers import (
    Marker,
    MarkerKey,
    Markers,
    ReplayMismatch,
    check_position,
    check_replay,
    is_partly_written,
    markers_lost,
)
from odradek.spark.sink.producer_pool import Held, ProducerPool, kept_producers
from odradek.spark.sink.replays import FirstBatchMarkers, Unit, abort_replay, commit_replay, earlier_markers
from odradek.spark.sink.row_sender import OpenTransaction, Replay, TaskCommitMessage, send_rows
from odradek.spark.worker.heap import settle
from odradek.spark.worker.quick_ack import QuickAckOnUnpickle

if TYPE_CHECKING:
    import pyarrow

_BATCH_ID = "streaming.sql.batchId"
_QUERY_ID = "sql.streaming.queryId"
_RUN_ID = "spark.jobGroup.id"
"""The job group of a query's thread is its run."""
_COMMITTED: Final = frozenset({"PrepareCommit", "CompleteCommit"})


def _new_attempt() -> str:
    return uuid4().hex[:12]


@dataclass(frozen=True)
class TransactionalStreamWriter(QuickAckOnUnpickle, DataSourceStreamArrowWriter):
    """Writes each micro-batch of a query exactly once."""

    options: SinkOptions
    attempt: str = field(default_factory=_new_attempt)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> TaskCommitMessage:
        task = _checked_task(is_streaming=True)
        query, batch_id = task.getLocalProperty(_QUERY_ID), task.getLocalProperty(_BATCH_ID)
        if query is None or batch_id is None:
            raise ExactlyOnceUnsupported(
                "guarantee=exactly_once is not possible: this Spark tells tasks neither query nor batch"
            )
        key, run = MarkerKey(query, task.partitionId()), task.getLocalProperty(_RUN_ID)
        written = write_exactly_once(self.options, Unit(key, int(batch_id), self.attempt, run), iterator)
        settle()
        return written

    def commit(self, messages: list[Any], batchId: int) -> None:
        commit_replay(self.options, messages, batchId)

    def abort(self, messages: list[Any], batchId: int) -> None:
        abort_replay(self.options, messages)


@dataclass(frozen=True)
class TransactionalBatchWriter(QuickAckOnUnpickle, DataSourceArrowWriter):
    """Writes a DataFrame exactly once under its ``sinkId``, however often it is run."""

    options: SinkOptions
    attempt: str = field(default_factory=_new_attempt)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> TaskCommitMessage:
        task = _checked_task(is_streaming=False)
        assert self.options.sink_id is not None
        key = MarkerKey(self.options.sink_id, task.partitionId())
        # The attempt is its own run: whatever was written before, another write has written.
        return write_exactly_once(self.options, Unit(key, 0, self.attempt, self.attempt), iterator)

    def commit(self, messages: list[Any]) -> None:
        commit_replay(self.options, messages, 0)

    def abort(self, messages: list[Any]) -> None:
        abort_replay(self.options, messages)


def _checked_task(*, is_streaming: bool) -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "Spark writes in tasks"
    check_exactly_once_settings(task.getLocalProperty, is_streaming=is_streaming)
    return task


def write_exactly_once(
    options: SinkOptions,
    unit: Unit,
    batches: Iterator[pyarrow.RecordBatch],
    kept: ProducerPool = kept_producers,
    earlier: FirstBatchMarkers = earlier_markers,
) -> TaskCommitMessage:
    """Write the rows of a unit unless they are written already."""
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        # The same batch has no rows when it comes again, either: there is nothing to guard.
        return TaskCommitMessage(0)
    rows = chain([first], batches)
    try:
        markers = earlier.of(options, unit)
        is_replay = markers is not None and is_partly_written(markers, unit.batch_id)
        held = kept.take(options, unit.key)
        if held is not None and not _claims(held, options, unit):
            kept.discard(held)
            held = None
        if held is None:
            held = _taken_over(options, unit, markers, kept)
            if held.marker.covers(unit.batch_id):
                return _skipped(held, unit, rows, kept, is_replay=is_replay)
            held.producer.begin_transaction()
        return _written(held, options, unit, rows, kept, is_replay=is_replay)
    except ClientError as failed:
        raise explained(failed, options) from failed


def _taken_over(options: SinkOptions, unit: Unit, markers: Markers | None, kept: ProducerPool) -> Held:
    """A new producer of the partition's id. First all others are fenced, then the marker is read: the other
    way round somebody could commit between the two."""
    has_no_markers = markers is not None and not markers
    if has_no_markers and options.missing_markers is MissingMarkers.FAIL:
        # Before the id is taken over, which hides how its last transaction ended.
        _miss_markers(options, unit.key)
    held = kept.made(options, unit.key)
    try:
        held.producer.init_transactions()
        marker_topics.ensure(options, afresh=has_no_markers)
        held.marker = read_marker(options, unit.key)
        check_position({unit.key.partition: held.marker}, unit.key.query, unit.batch_id)
    except BaseException:
        kept.discard(held)
        raise
    return held


def _miss_markers(options: SinkOptions, key: MarkerKey) -> None:
    """Raise MarkersLost if the partition's last transaction was committed and there is no marker of it."""
    found = describe_transaction(options, key)
    if found is not None and found.state in _COMMITTED and not read_marker(options, key).next_batch:
        raise markers_lost(key, options.marker_topic)


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
    kept: ProducerPool,
    *,
    is_replay: bool,
) -> TaskCommitMessage:
    try:
        written = send_rows(held.producer, rows, options.topic)
        held.marker = Marker(unit.batch_id + 1, written.rows_count, unit.attempt or None)
        opened = _opened(options, unit.key) if is_replay else None
        _send_marker(held.producer, options, unit, held.marker)
        if opened is None:
            held.producer.commit_transaction()
    except BaseException as failed:
        # Also when the rows themselves failed: readers should not wait for the transaction's timeout.
        kept.abort(held, failed)
        raise
    if opened is None:
        kept.put(held)
        return TaskCommitMessage(written.rows_count, written.ranges)
    kept.leave_open(held)
    replay = Replay(unit.key.query, unit.attempt, opened)
    return TaskCommitMessage(written.rows_count, written.ranges, replay=replay)


def _opened(options: SinkOptions, key: MarkerKey) -> OpenTransaction:
    """The transaction under way, as its coordinator knows it.

    It is asked for before the marker is sent. That the marker is taken then proves that nobody has taken the
    id over in between, so this is the transaction of this task.
    """
    found = describe_transaction(options, key)
    if found is None:
        raise ReplayMismatch(
            f"{key} has to write a batch that was written in part before, for which brokers have to describe "
            "transactions (Kafka 3.0 or later)"
        )
    return OpenTransaction(found.transactional_id, found.producer_id, found.producer_epoch)


def _skipped(
    held: Held,
    unit: Unit,
    rows: Iterator[pyarrow.RecordBatch],
    kept: ProducerPool,
    *,
    is_replay: bool,
) -> TaskCommitMessage:
    """Let the rows go by: Spark wants all that it sends to be read."""
    kept.put(held)
    rows_count = sum(batch.num_rows for batch in rows)
    if not is_replay:
        check_replay(held.marker, unit.key, unit.batch_id, rows_count)
        return TaskCommitMessage(rows_count, is_skipped=True)
    problem = None
    try:
        check_replay(held.marker, unit.key, unit.batch_id, rows_count)
    except ReplayMismatch as differs:
        # The driver refuses the batch when it knows all transactions that are open, and aborts them.
        problem = str(differs)
    replay = Replay(unit.key.query, unit.attempt, problem=problem)
    return TaskCommitMessage(rows_count, is_skipped=True, replay=replay)
