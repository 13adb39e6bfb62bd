"""The writers of ``format("odradek")``: which one serves a query, and the one that writes at least once.

Writers are made on the driver for each micro-batch, and travel to the tasks: they hold options, no
connection. At least once: every row a task was given has been acknowledged when the task ends, and a task
that is run again sends its rows again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter

from odradek.model.client_errors import ClientError
from odradek.model.errors import ConfigError
from odradek.spark.options.sink_options import Guarantee, SinkOptions, read_sink_options
from odradek.spark.sink.errors import explained
from odradek.spark.sink.row_sender import TaskCommitMessage, send_rows
from odradek.spark.sink.rows import check_columns
from odradek.spark.worker.client_pool import forget, producer_of
from odradek.spark.worker.heap import settle
from odradek.spark.worker.quick_ack import QuickAckOnUnpickle

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
    """The writer of ``df.write``; refuses options and columns that cannot work."""
    read = read_sink_options(options, is_streaming=False)
    check_columns(schema, read.topic)
    if overwrite:
        raise ConfigError(["a topic cannot be overwritten: use mode('append')"])
    if read.guarantee is Guarantee.EXACTLY_ONCE:
        from odradek.spark.sink.transactional_writer import TransactionalBatchWriter

        return TransactionalBatchWriter(read)
    return BatchWriter(read)


def stream_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceStreamArrowWriter:
    """The writer of ``df.writeStream``; refuses options and columns that cannot work.

    ``overwrite`` comes with the output mode complete: as with Spark's own sink the whole result is appended.
    """
    del overwrite
    read = read_sink_options(options, is_streaming=True)
    check_columns(schema, read.topic)
    if read.guarantee is Guarantee.EXACTLY_ONCE:
        from odradek.spark.sink.transactional_writer import TransactionalStreamWriter

        return TransactionalStreamWriter(read)
    return StreamWriter(read)


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
        settle()
        return written


def write_at_least_once(options: SinkOptions, batches: Iterator[pyarrow.RecordBatch]) -> TaskCommitMessage:
    """Send the rows of one task with the producer of this process."""
    producer = producer_of(options.producer_settings)
    try:
        written = send_rows(producer, batches, options.topic)
    except ClientError as failed:
        forget(producer)
        raise explained(failed, options) from failed
    return TaskCommitMessage(written.rows_count, written.ranges)
