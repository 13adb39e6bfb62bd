"""Streaming queries: a DataSourceStreamReader that decides the offsets of each micro-batch.

One object serves a query for as long as it runs, in its own process beside the driver. It holds state for
which the API has no other place: the query's initial offsets, the target of an AvailableNow run, topic ids.

The start offsets of the first batch are not in Spark's checkpoint. So the first batch of a new query is
empty: it ends where it starts, and its end is in the checkpoint. The same holds for new partitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from odradek.client.environment import system_environment
from odradek.spark.options.offsets import Offsets, OffsetsJson, offsets_from_json, offsets_to_json
from odradek.spark.options.source_options import SourceOptions
from odradek.spark.source import admission
from odradek.spark.source.data_loss import (
    LogOffsets,
    Loss,
    data_loss_error,
    describe_losses,
    find_losses,
    resume_offsets,
)
from odradek.spark.source.group_commits import GroupCommitter
from odradek.spark.source.offset_reader import OffsetReader
from odradek.spark.source.range_planner import plan_tasks
from odradek.spark.source.ranges import OffsetRangesPartition
from odradek.spark.worker.quick_ack import QuickAckOnUnpickle
from odradek.telemetry import events

_log: Final = events.logger("spark")


class TopicStreamReader(QuickAckOnUnpickle, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics micro-batch by micro-batch."""

    def __init__(
        self, options: SourceOptions, schema: StructType, offset_reader: OffsetReader | None = None
    ) -> None:
        self._options = options
        self._schema = schema
        self._offset_reader = offset_reader or OffsetReader(options)
        self._group = GroupCommitter(self._offset_reader)
        self._initial_offsets: OffsetsJson | None = None
        self._is_initial_batch_planned = False
        self._available_now_ends: Offsets | None = None
        self._log_offsets: LogOffsets | None = None
        self._known_ids = dict(options.expected_topic_ids)
        self._last_batch_ms: int | None = None

    def initialOffset(self) -> OffsetsJson:
        """Return the start of a new query; the same at every call."""
        if self._initial_offsets is None:
            for message in self._options.without_effect:
                _log.warning("option_without_effect", reason=message)
            start = self._options.start
            partitions = self._offset_reader.fetch_partitions().partitions
            start.check_known("startingOffsets", partitions)
            late_is_error = self._options.no_later_record_is_error
            self._initial_offsets = offsets_to_json(
                self._offset_reader.fetch_offsets(start, partitions, late_is_error=late_is_error)
            )
        return self._initial_offsets

    def getDefaultReadLimit(self) -> ReadLimit:
        trigger_limits = self._options.trigger_limits
        if trigger_limits.offsets_max is not None:
            return ReadMaxRows(trigger_limits.offsets_max)
        return (
            ReadAllAvailable()
            if trigger_limits.offsets_min is None
            else ReadMinRows(trigger_limits.offsets_min)
        )

    def prepareForTriggerAvailableNow(self) -> None:
        self._available_now_ends = dict(self._offset_reader.fetch_log_offsets({}).ends)

    def latestOffset(self, start: OffsetsJson, limit: ReadLimit) -> OffsetsJson:
        """Return the end of the next batch; ``start`` if there is none yet."""
        processed = offsets_from_json(start)
        log_offsets = self._fetch_log_offsets(processed)
        losses = self._losses(processed, log_offsets)
        resume = resume_offsets(losses)
        self._known_ids |= log_offsets.topic_ids
        if self._options.commits_group:
            # The offset of a recreated topic belongs to the deleted one, and must not be committed.
            valid = {partition: offset for partition, offset in processed.items() if partition not in resume}
            self._group.commit(valid, log_offsets.topic_ids)
        if not self._is_initial_batch_planned and start == self._initial_offsets:
            self._is_initial_batch_planned = True
            return offsets_to_json(
                admission.next_offsets(processed, processed, log_offsets.log_starts, resume, None)
            )
        ends = admission.bounded(log_offsets.ends, self._available_now_ends)
        if not resume and self._should_wait(admission.lag(processed, ends), limit):
            return start
        offsets_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return offsets_to_json(
            admission.next_offsets(processed, ends, log_offsets.log_starts, resume, offsets_max)
        )

    def reportLatestOffset(self) -> OffsetsJson | None:
        """Return the last known log end offsets, without a request."""
        return None if self._log_offsets is None else offsets_to_json(self._log_offsets.ends)

    def partitions(self, start: OffsetsJson, end: OffsetsJson) -> list[InputPartition]:
        self._is_initial_batch_planned = True
        if self._log_offsets is None:
            # A batch of an earlier run, planned again: check that its records still exist.
            start_offsets = offsets_from_json(start)
            self._losses(start_offsets, self._fetch_log_offsets(start_offsets))
        tasks = plan_tasks(
            offsets_from_json(start),
            offsets_from_json(end),
            range_count_min=self._options.range_count_min,
            range_offsets_max=self._options.range_offsets_max,
        )
        return [OffsetRangesPartition(ranges) for ranges in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        # Imported on executors only.
        from odradek.spark.source.range_reader import task_batches

        assert isinstance(partition, OffsetRangesPartition)
        yield from task_batches(self._options, partition.ranges, self._schema)

    def commit(self, end: OffsetsJson) -> None:
        """Do nothing: Spark does not call it for the last batch of a run. See ``latestOffset``."""

    def stop(self) -> None:
        """Do nothing: the process ends."""

    def _fetch_log_offsets(self, expected: Offsets) -> LogOffsets:
        first = self._log_offsets is None
        self._log_offsets = self._offset_reader.fetch_log_offsets(expected)
        if first and self._options.commits_group and self._resumes_from_group():
            # Ids committed with offsets are newer than those in expectedTopicIds.
            self._known_ids |= self._group.topic_ids(expected)
        return self._log_offsets

    def _resumes_from_group(self) -> bool:
        """Return True if the group's commits belong to this query: not if it starts elsewhere now."""
        return self._initial_offsets is None or self._options.start.needs_group

    def _losses(self, start: Offsets, log_offsets: LogOffsets) -> list[Loss]:
        """Return the losses if they are accepted; else raise DataLoss."""
        losses = find_losses(start, log_offsets, self._known_ids)
        if losses and self._options.fail_on_data_loss:
            raise data_loss_error(losses)
        if losses:
            _log.warning("records_lost", reason=describe_losses(losses))
        return losses

    def _should_wait(self, lag: int, limit: ReadLimit) -> bool:
        if self._available_now_ends is not None or isinstance(limit, ReadAllAvailable):
            return False
        now_ms = system_environment().clock.monotonic_ms()
        since_ms = None if self._last_batch_ms is None else now_ms - self._last_batch_ms
        wait = self._options.trigger_limits.should_wait(lag, since_ms)
        if not wait:
            self._last_batch_ms = now_ms
        return wait
