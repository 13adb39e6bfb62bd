"""Reading of offset ranges in a task, as Arrow record batches.

A range is done when the position reaches its end or passes it: compaction and transactions leave gaps. Broker
restarts are waited for, up to ``kafkaConsumer.pollTimeoutMs`` without progress. Lost records are an error, or
skipped if ``failOnDataLoss`` is false.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import pyarrow
from pyspark.sql.types import StructType

from odradek.client.blocking.range_consumer import RangeConsumer
from odradek.client.environment import system_environment
from odradek.model.client_errors import ClientError, OffsetOutOfRange, TimedOut, UnknownTopic
from odradek.model.ids import TopicPartition
from odradek.records.client.consumer import ColumnBuilder
from odradek.spark.options.source_options import SourceOptions
from odradek.spark.source.arrow_batches import BATCH_BYTES_MAX, ROWS_MAX, ArrowBatchBuilder
from odradek.spark.source.data_loss import (
    Cause,
    LogOffsets,
    Loss,
    batch_losses,
    data_loss_error,
    describe_losses,
)
from odradek.spark.source.ranges import OffsetRange
from odradek.spark.worker.client_pool import discard, get_consumer
from odradek.spark.worker.heap import freeze_heap
from odradek.telemetry import events

SCAN_SETTINGS: Final = {
    # A task reads one partition at a time: large fetches cost fewer round trips.
    "max.partition.fetch.bytes": str(8 * 1024 * 1024),
    "receive.buffer.bytes": str(1024 * 1024),
}
"""Defaults of the source."""
_FIXED_SETTINGS: Final = {"auto.offset.reset": "none", "enable.auto.commit": "false"}
LOG_CHECK_MS: Final = 1_000
"""Time without a record after which the log's bounds are checked: records may be lost."""
LOG_CHECK_TIMEOUT_S: Final = 5.0
TRUNCATION_CHECKS: Final = 3
"""Checks that must find the log truncated before it counts: a new leader may learn its end later."""
_log: Final = events.logger("spark")


def task_batches(
    options: SourceOptions, ranges: Iterable[OffsetRange], schema: StructType
) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of a task's ranges, one range after the other."""
    for range_ in ranges:
        yield from record_batches(options, range_, schema)
    freeze_heap()


def record_batches(
    options: SourceOptions, range_: OffsetRange, schema: StructType
) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of a range with the columns of ``schema``; raise DataLoss or another ClientError."""
    if range_.offset_count <= 0:
        return
    consumer = get_consumer(consumer_settings(options.client_settings))
    try:
        reader = RangeReader(options, range_, consumer, system_environment().clock.monotonic_ms)
        yield from reader.batches(ArrowBatchBuilder(schema, *range_[:2]))
    except ClientError:
        discard(consumer)
        raise


def consumer_settings(client_settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a task's consumer.

    >>> consumer_settings({"bootstrap.servers": "b:9092"})["auto.offset.reset"]
    'none'
    """
    return {**SCAN_SETTINGS, **client_settings, **_FIXED_SETTINGS}


class RangeReader:
    """Reads one range. ``_stop`` is lowered if the log ends before the range and that is accepted."""

    def __init__(
        self, options: SourceOptions, range_: OffsetRange, consumer: RangeConsumer, now_ms: Callable[[], int]
    ) -> None:
        self._options = options
        self._range = range_
        self._partition = TopicPartition(*range_[:2])
        self._consumer = consumer
        self._now_ms = now_ms
        self._stop = range_.end
        self._progress_ms = self._now_ms()
        self._position = range_.start
        self._truncation_count = 0

    def batches(self, rows: ArrowBatchBuilder) -> Iterator[pyarrow.RecordBatch]:
        columns = ColumnBuilder(rows.wanted, BATCH_BYTES_MAX)
        self._begin_at(self._range.start)
        while not self._consumer.is_done:
            if self._fill(columns):
                yield rows.batch(columns.finish())
                # Time that Spark spends between batches does not count as waiting.
                self._progress_ms = self._now_ms()

    def _begin_at(self, offset: int) -> None:
        self._consumer.begin_range(self._partition, min(offset, self._stop), self._stop)

    def _fill(self, columns: ColumnBuilder) -> int:
        """Return the number of rows added, possibly 0; raise TimedOut after the poll timeout."""
        left_ms = self._progress_ms + self._options.poll_timeout_ms - self._now_ms()
        try:
            count = self._consumer.fill(columns, ROWS_MAX, max(min(left_ms, LOG_CHECK_MS), 0) / 1000)
        except OffsetOutOfRange:
            count = 0
        position = self._consumer.range_position
        if count or position > self._position:
            self._position, self._progress_ms, self._truncation_count = position, self._now_ms(), 0
        elif not self._consumer.is_done:
            self._check_log()
            self._check_timeout()
        return count

    def _check_timeout(self) -> None:
        if self._now_ms() - self._progress_ms >= self._options.poll_timeout_ms:
            raise TimedOut(
                f"no record of {self._partition} received within {self._options.poll_timeout_ms} ms "
                f"(kafkaConsumer.pollTimeoutMs) at offset {self._consumer.range_position} of the range "
                f"{self._range}: check that its broker is reachable, or raise the timeout"
            )

    # Data loss.

    def _check_log(self) -> None:
        """Check whether the next records are lost; if so, skip them or raise DataLoss."""
        log_offsets = self._log_offsets()
        if log_offsets is None:
            return
        position = self._consumer.range_position
        losses = batch_losses({self._partition: position}, {self._partition: self._stop}, log_offsets)
        if not losses or not self._is_certain(losses):
            return
        if self._options.fail_on_data_loss:
            raise data_loss_error(losses)
        _log.warning("records_lost", reason=describe_losses(losses), range=str(self._range))
        self._stop = min(self._stop, max(log_offsets.ends.get(self._partition, position), position))
        self._begin_at(max(log_offsets.log_starts.get(self._partition, position), position))

    def _is_certain(self, losses: list[Loss]) -> bool:
        """Return True unless it is a truncation seen too few times; expired records do not come back."""
        self._truncation_count += 1
        return self._truncation_count >= TRUNCATION_CHECKS or any(
            loss.cause is Cause.EXPIRED for loss in losses
        )

    def _log_offsets(self) -> LogOffsets | None:
        """Return the log's current bounds; None if the broker cannot be reached, which is no data loss."""
        try:
            log_start, log_end = self._consumer.log_bounds(LOG_CHECK_TIMEOUT_S)
        except UnknownTopic:
            return LogOffsets({}, {}, {})
        except ClientError as error:
            if not error.retriable:
                raise
            return None
        return LogOffsets({}, {self._partition: log_start}, {self._partition: log_end})
