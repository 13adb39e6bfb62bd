"""Writers of ``format("odradek")``: their selection, and the at-least-once writers.

Spark creates writers on the driver for each micro-batch, and pickles them to tasks: they hold options, no
connection. At least once: every row of a task is acknowledged when the task ends, and a task that runs again
sends its rows again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter

from odradek.model.client_errors import ClientError
from odradek.model.errors import ConfigError
from odradek.spark.options.sink_options import Guarantee, SinkOptions, read_sink_options
from odradek.spark.sink.errors import explain
from odradek.spark.sink.row_sender import TaskCommitMessage, send_rows
from odradek.spark.sink.rows import check_columns
from odradek.spark.worker.client_pool import discard, get_producer
from odradek.spark.worker.heap import freeze_heap
from odradek.spark.worker.quick_ack import QuickAckOnUnpickle

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
    """Return the writer of ``df.write``; raise ConfigError for invalid options or columns."""
    sink_options = read_sink_options(options, is_streaming=False)
    check_columns(schema, sink_options.topic)
    if overwrite:
        raise ConfigError(["mode must be append, got overwrite: a topic cannot be overwritten"])
    if sink_options.guarantee is Guarantee.EXACTLY_ONCE:
        from odradek.spark.sink.transactional_writer import TransactionalBatchWriter

        return TransactionalBatchWriter(sink_options)
    return BatchWriter(sink_options)


def stream_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceStreamArrowWriter:
    """Return the writer of ``df.writeStream``; raise ConfigError for invalid options or columns.

    ``overwrite`` is set in output mode complete: as in Spark's own sink the whole result is appended.
    """
    del overwrite
    sink_options = read_sink_options(options, is_streaming=True)
    check_columns(schema, sink_options.topic)
    if sink_options.guarantee is Guarantee.EXACTLY_ONCE:
        from odradek.spark.sink.transactional_writer import TransactionalStreamWriter

        return TransactionalStreamWriter(sink_options)
    return StreamWriter(sink_options)


@dataclass(frozen=True)
class BatchWriter(QuickAckOnUnpickle, DataSourceArrowWriter):
    """Appends the rows of a DataFrame, at least once."""

    options: SinkOptions

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> TaskCommitMessage:
        return write_at_least_once(self.options, iterator)


@dataclass(frozen=True)
class StreamWriter(QuickAckOnUnpickle, DataSourceStreamArrowWriter):
    """Appends the rows of each micro-batch, at least once."""

    options: SinkOptions

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> TaskCommitMessage:
        written = write_at_least_once(self.options, iterator)
        freeze_heap()
        return written


def write_at_least_once(options: SinkOptions, batches: Iterator[pyarrow.RecordBatch]) -> TaskCommitMessage:
    """Send the rows of one task with this process's producer."""
    producer = get_producer(options.producer_settings)
    try:
        written = send_rows(producer, batches, options.topic)
    except ClientError as failed:
        discard(producer)
        raise explain(failed, options) from failed
    return TaskCommitMessage(written.rows_count, written.ranges)
