"""Exactly-once writers: rows and marker of a batch in one transaction.

A task writes its partition's rows of a batch, and the marker of that batch, in one transaction. The
transactional id belongs to the query's partition. A task that takes over the id fences other producers, and
so ends their transactions, *before* it reads the marker: a marker that is missing then cannot appear later. A
batch whose marker exists is not written again.

A batch that another attempt has partly written is committed by the driver, once all tasks are done and it is
certain that the tasks are the same as before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter

from odradek.client.blocking.producer import Producer
from odradek.client.environment import new_uuid
from odradek.client.values import OffsetAndMetadata
from odradek.model.client_errors import ClientError
from odradek.model.ids import TopicPartition
from odradek.spark.options.sink_options import MissingMarkers, SinkOptions
from odradek.spark.sink.errors import explain
from odradek.spark.sink.exactly_once_settings import ExactlyOnceUnsupported, check_exactly_once_settings
from odradek.spark.sink.marker_store import describe_transaction, marker_topics, read_marker
from odradek.spark.sink.markers import (
    Marker,
    MarkerKey,
    Markers,
    ReplayMismatch,
    check_batch_order,
    check_row_count,
    is_partly_written,
    markers_lost_error,
)
from odradek.spark.sink.producer_pool import PooledProducer, ProducerPool, producer_pool
from odradek.spark.sink.replays import (
    FirstBatchMarkers,
    WriteUnit,
    abort_replay,
    commit_replay,
    first_batch_markers,
)
from odradek.spark.sink.row_sender import OpenTransaction, Replay, TaskCommitMessage, send_rows
from odradek.spark.worker.heap import freeze_heap
from odradek.spark.worker.quick_ack import QuickAckOnUnpickle

if TYPE_CHECKING:
    import pyarrow

_BATCH_ID = "streaming.sql.batchId"
_QUERY_ID = "sql.streaming.queryId"
_RUN_ID = "spark.jobGroup.id"
"""The job group of a query's thread is the query's run id."""
_COMMITTED: Final = frozenset({"PrepareCommit", "CompleteCommit"})


def _new_attempt() -> str:
    return new_uuid().hex[:12]


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
                "guarantee=exactly_once is not possible: Spark passed no query id or batch id to the task"
            )
        key, run = MarkerKey(query, task.partitionId()), task.getLocalProperty(_RUN_ID)
        written = write_exactly_once(self.options, WriteUnit(key, int(batch_id), self.attempt, run), iterator)
        freeze_heap()
        return written

    def commit(self, messages: Sequence[object], batchId: int) -> None:
        commit_replay(self.options, messages, batchId)

    def abort(self, messages: Sequence[object], batchId: int) -> None:
        abort_replay(self.options, messages)


@dataclass(frozen=True)
class TransactionalBatchWriter(QuickAckOnUnpickle, DataSourceArrowWriter):
    """Writes a DataFrame exactly once under its ``sinkId``, however often it runs."""

    options: SinkOptions
    attempt: str = field(default_factory=_new_attempt)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> TaskCommitMessage:
        task = _checked_task(is_streaming=False)
        assert self.options.sink_id is not None
        key = MarkerKey(self.options.sink_id, task.partitionId())
        # The attempt is its own run: existing markers are another write's.
        return write_exactly_once(self.options, WriteUnit(key, 0, self.attempt, self.attempt), iterator)

    def commit(self, messages: Sequence[object]) -> None:
        commit_replay(self.options, messages, 0)

    def abort(self, messages: Sequence[object]) -> None:
        abort_replay(self.options, messages)


def _checked_task(*, is_streaming: bool) -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "not in a Spark task"
    check_exactly_once_settings(task.getLocalProperty, is_streaming=is_streaming)
    return task


def write_exactly_once(
    options: SinkOptions,
    unit: WriteUnit,
    batches: Iterator[pyarrow.RecordBatch],
    pool: ProducerPool = producer_pool,
    first_markers: FirstBatchMarkers = first_batch_markers,
) -> TaskCommitMessage:
    """Write the rows of a unit unless they have been written."""
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        # A replay of the batch has no rows either: there is nothing to guard.
        return TaskCommitMessage(0)
    rows = chain([first], batches)
    try:
        markers = first_markers.of(options, unit)
        is_replay = markers is not None and is_partly_written(markers, unit.batch_id)
        pooled = pool.take(options, unit.key)
        if pooled is not None and not _begin_with(pooled, options, unit):
            pool.discard(pooled)
            pooled = None
        if pooled is None:
            pooled = _take_over(options, unit, markers, pool)
            if pooled.marker.covers(unit.batch_id):
                return _skip(pooled, unit, rows, pool, is_replay=is_replay)
            pooled.producer.begin_transaction()
        return _write(pooled, options, unit, rows, pool, is_replay=is_replay)
    except ClientError as failed:
        raise explain(failed, options) from failed


def _take_over(
    options: SinkOptions, unit: WriteUnit, markers: Markers | None, pool: ProducerPool
) -> PooledProducer:
    """Return a new producer of the partition's transactional id.

    It fences all others first, and reads the marker then: otherwise another could commit in between.
    """
    has_no_markers = markers is not None and not markers
    if has_no_markers and options.missing_markers is MissingMarkers.FAIL:
        # Before the takeover, which hides how the last transaction ended.
        _check_markers_exist(options, unit.key)
    pooled = pool.create(options, unit.key)
    try:
        pooled.producer.init_transactions()
        marker_topics.ensure(options, recheck=has_no_markers)
        pooled.marker = read_marker(options, unit.key)
        check_batch_order({unit.key.partition: pooled.marker}, unit.key.query, unit.batch_id)
    except BaseException:
        pool.discard(pooled)
        raise
    return pooled


def _check_markers_exist(options: SinkOptions, key: MarkerKey) -> None:
    """Raise MarkersLost if the partition's last transaction was committed, but has no marker."""
    transaction = describe_transaction(options, key)
    if (
        transaction is not None
        and transaction.state in _COMMITTED
        and not read_marker(options, key).next_batch
    ):
        raise markers_lost_error(key, options.marker_topic)


def _begin_with(pooled: PooledProducer, options: SinkOptions, unit: WriteUnit) -> bool:
    """Begin a transaction with a producer that wrote an earlier batch; False if it has been fenced.

    It need not take over the id again. If no other producer has since, none has committed a marker: a writer
    takes over the id first, and earlier owners were fenced by this producer. Otherwise the broker rejects the
    marker that is sent here, before the first row, and the caller takes over the id. Spark's workers
    alternate between partitions, so that is no failure.
    """
    if pooled.marker.covers(unit.batch_id):
        return False
    try:
        pooled.producer.begin_transaction()
        _send_marker(pooled.producer, options, unit, Marker(unit.batch_id + 1))
    except ClientError:
        return False
    return True


def _send_marker(producer: Producer, options: SinkOptions, unit: WriteUnit, marker: Marker) -> None:
    marker_partition = TopicPartition(options.marker_topic, 0)
    offset = OffsetAndMetadata(marker.next_batch, marker.metadata)
    producer.send_offsets_to_transaction({marker_partition: offset}, unit.key.group)


def _write(
    pooled: PooledProducer,
    options: SinkOptions,
    unit: WriteUnit,
    rows: Iterator[pyarrow.RecordBatch],
    pool: ProducerPool,
    *,
    is_replay: bool,
) -> TaskCommitMessage:
    try:
        written = send_rows(pooled.producer, rows, options.topic)
        pooled.marker = Marker(unit.batch_id + 1, written.rows_count, unit.attempt or None)
        open_transaction = _open_transaction(options, unit.key) if is_replay else None
        _send_marker(pooled.producer, options, unit, pooled.marker)
        if open_transaction is None:
            pooled.producer.commit_transaction()
    except BaseException as failed:
        # Also if the query itself failed: readers should not wait for the transaction timeout.
        pool.abort(pooled, failed)
        raise
    if open_transaction is None:
        pool.put(pooled)
        return TaskCommitMessage(written.rows_count, written.ranges)
    pool.close_with_open_transaction(pooled)
    replay = Replay(unit.key.query, unit.attempt, open_transaction)
    return TaskCommitMessage(written.rows_count, written.ranges, replay=replay)


def _open_transaction(options: SinkOptions, key: MarkerKey) -> OpenTransaction:
    """Describe the ongoing transaction.

    It is described before the marker is sent. That the broker then accepts the marker proves that the id was
    not taken over in between, so this is the transaction of this task.
    """
    transaction = describe_transaction(options, key)
    if transaction is None:
        raise ReplayMismatch(
            f"{key} is about to replay a partly written batch, which requires brokers that support "
            "DescribeTransactions (Kafka 3.0 or later)"
        )
    return OpenTransaction(transaction.transactional_id, transaction.producer_id, transaction.producer_epoch)


def _skip(
    pooled: PooledProducer,
    unit: WriteUnit,
    rows: Iterator[pyarrow.RecordBatch],
    pool: ProducerPool,
    *,
    is_replay: bool,
) -> TaskCommitMessage:
    """Consume the rows without writing them: Spark requires a task to read all its input."""
    pool.put(pooled)
    rows_count = sum(batch.num_rows for batch in rows)
    if not is_replay:
        check_row_count(pooled.marker, unit.key, unit.batch_id, rows_count)
        return TaskCommitMessage(rows_count, is_skipped=True)
    problem = None
    try:
        check_row_count(pooled.marker, unit.key, unit.batch_id, rows_count)
    except ReplayMismatch as mismatch:
        # The driver fails the batch once it knows all open transactions, and aborts them.
        problem = str(mismatch)
    replay = Replay(unit.key.query, unit.attempt, problem=problem)
    return TaskCommitMessage(rows_count, is_skipped=True, replay=replay)
