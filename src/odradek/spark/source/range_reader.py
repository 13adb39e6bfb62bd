"""Ranges of offsets, read by a task: batch after batch of their rows, and their ends found for certain.

A range is done when the position is at its end or beyond: what compaction and transactions left out of it is
passed over. Broker restarts are waited for, up to ``kafkaConsumer.pollTimeoutMs`` without any progress. Rows
that are gone for good are an error, or passed over if ``failOnDataLoss`` is false.
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
from odradek.records.codec import ColumnBuilder
from odradek.spark.options.source_options import SourceOptions
from odradek.spark.source.arrow_batches import BATCH_BYTES_MAX, ROWS_MAX, ArrowBatchBuilder
from odradek.spark.source.data_loss import Cause, Loss, Sight, batch_losses, refusal, words_of
from odradek.spark.source.ranges import Range
from odradek.spark.worker.client_pool import consumer_of, forget
from odradek.spark.worker.heap import settle
from odradek.telemetry import events

SCAN_SETTINGS: Final = {
    # A task reads one partition, all of what it asks for: large answers cost fewer round trips.
    "max.partition.fetch.bytes": str(8 * 1024 * 1024),
    "receive.buffer.bytes": str(1024 * 1024),
}
"""What the source chooses where the user has said nothing."""
_OWN_SETTINGS: Final = {"auto.offset.reset": "none", "enable.auto.commit": "false"}
LOOK_MS: Final = 1_000
"""After so long without a row the log is looked at: its rows may be gone."""
LOOK_TIMEOUT_S: Final = 5.0
CUT_LOOKS: Final = 3
"""So often a log must be seen to end before the range does: a new leader may learn its end a moment later."""
_log: Final = events.logger("spark")


def task_batches(
    options: SourceOptions, ranges: Iterable[Range], schema: StructType
) -> Iterator[pyarrow.RecordBatch]:
    """The rows of a task's ranges, one range after the other."""
    for one in ranges:
        yield from record_batches(options, one, schema)
    settle()


def record_batches(
    options: SourceOptions, range_: Range, schema: StructType
) -> Iterator[pyarrow.RecordBatch]:
    """The rows of a range in the columns of ``schema``; raises DataLoss or another ClientError."""
    if range_.offset_count <= 0:
        return
    consumer = consumer_of(reading_settings(options.client_settings))
    try:
        reading = RangeReader(options, range_, consumer, system_environment().clock.monotonic_ms)
        yield from reading.batches(ArrowBatchBuilder(schema, *range_[:2]))
    except ClientError:
        forget(consumer)
        raise


def reading_settings(client_settings: Mapping[str, str]) -> dict[str, str]:
    """Settings of a task's consumer.

    >>> reading_settings({"bootstrap.servers": "b:9092"})["auto.offset.reset"]
    'none'
    """
    return {**SCAN_SETTINGS, **client_settings, **_OWN_SETTINGS}


class RangeReader:
    """One range on its way; ``_stop`` comes down if the log ends before the range and that is accepted."""

    def __init__(
        self, options: SourceOptions, range_: Range, consumer: RangeConsumer, now_ms: Callable[[], int]
    ) -> None:
        self._options = options
        self._range = range_
        self._partition = TopicPartition(*range_[:2])
        self._consumer = consumer
        self._now_ms = now_ms
        self._stop = range_.end
        self._progress_ms = self._now_ms()
        self._position = range_.start
        self._cut_count = 0

    def batches(self, rows: ArrowBatchBuilder) -> Iterator[pyarrow.RecordBatch]:
        columns = ColumnBuilder(rows.wanted, BATCH_BYTES_MAX)
        self._begin_at(self._range.start)
        while not self._consumer.is_done:
            if self._fill(columns):
                yield rows.batch(columns.finish())
                # Whatever Spark did meanwhile was no waiting of ours.
                self._progress_ms = self._now_ms()

    def _begin_at(self, offset: int) -> None:
        self._consumer.begin_range(self._partition, min(offset, self._stop), self._stop)

    def _fill(self, columns: ColumnBuilder) -> int:
        """Rows that came, perhaps none; raises TimedOut if nothing came for too long."""
        left_ms = self._progress_ms + self._options.poll_timeout_ms - self._now_ms()
        try:
            count = self._consumer.fill(columns, ROWS_MAX, max(min(left_ms, LOOK_MS), 0) / 1000)
        except OffsetOutOfRange:
            count = 0
        position = self._consumer.range_position
        if count or position > self._position:
            self._position, self._progress_ms, self._cut_count = position, self._now_ms(), 0
        elif not self._consumer.is_done:
            self._look()
            self._give_up_in_time()
        return count

    def _give_up_in_time(self) -> None:
        if self._now_ms() - self._progress_ms >= self._options.poll_timeout_ms:
            raise TimedOut(
                f"no record of {self._partition} came within {self._options.poll_timeout_ms} ms "
                f"(kafkaConsumer.pollTimeoutMs) at offset {self._consumer.range_position} of the range "
                f"{self._range}: see whether its broker can be reached, or allow more time"
            )

    # Rows that are gone.

    def _look(self) -> None:
        """See whether what is missing is gone for good; if so, go on behind it or raise DataLoss."""
        sight = self._sight()
        if sight is None:
            return
        position = self._consumer.range_position
        losses = batch_losses({self._partition: position}, {self._partition: self._stop}, sight)
        if not losses or not self._is_certain(losses):
            return
        if self._options.fail_on_data_loss:
            raise refusal(losses)
        _log.warning("records_lost", reason=words_of(losses), range=str(self._range))
        self._stop = min(self._stop, max(sight.ends.get(self._partition, position), position))
        self._begin_at(max(sight.log_starts.get(self._partition, position), position))

    def _is_certain(self, losses: list[Loss]) -> bool:
        """What has expired does not come back; an end of a log may be seen too early."""
        self._cut_count += 1
        return self._cut_count >= CUT_LOOKS or any(loss.cause is Cause.EXPIRED for loss in losses)

    def _sight(self) -> Sight | None:
        """The log as it is now; None if nobody can tell: who cannot be asked has lost nothing yet."""
        try:
            first, after_last = self._consumer.log_bounds(LOOK_TIMEOUT_S)
        except UnknownTopic:
            return Sight({}, {}, {})
        except ClientError as failed:
            if not failed.retriable:
                raise
            return None
        return Sight({}, {self._partition: first}, {self._partition: after_last})
