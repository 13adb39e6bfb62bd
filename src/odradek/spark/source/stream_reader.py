"""Streaming queries: where each micro-batch begins and ends.

One object serves a query for as long as it runs, in a process of its own beside the driver. It remembers what
the API has no other place for: the position the query began at, the target of a run that ends, ids of topics.

The beginning of the first batch is not in Spark's checkpoint. So the first batch of a new query is empty: it
ends where it begins, and that end is in the checkpoint. The same goes for partitions that appear later.
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
from odradek.spark.options import admission
from odradek.spark.options.offsets import Document, Offsets, document, parse
from odradek.spark.options.source_options import SourceOptions
from odradek.spark.source.data_loss import Loss, Sight, find_losses, refusal, resume_places, words_of
from odradek.spark.source.group_commits import GroupCommitter
from odradek.spark.source.offset_reader import OffsetReader
from odradek.spark.source.range_planner import plan_tasks
from odradek.spark.source.ranges import OffsetRangesPartition
from odradek.spark.worker.quick_ack import QuickAckOnUnpickle
from odradek.telemetry import events

_log: Final = events.logger("spark")


class TopicStreamReader(QuickAckOnUnpickle, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics for as long as the query runs."""

    def __init__(self, options: SourceOptions, schema: StructType, view: OffsetReader | None = None) -> None:
        self._options = options
        self._schema = schema
        self._view = view or OffsetReader(options)
        self._group = GroupCommitter(self._view)
        self._initial: Document | None = None
        self._anchored = False
        self._target: Offsets | None = None
        self._sight: Sight | None = None
        self._known_ids = dict(options.expected_topic_ids)
        self._last_batch_ms: int | None = None

    def initialOffset(self) -> Document:
        """Where a new query begins; the same however often it is asked."""
        if self._initial is None:
            for sentence in self._options.without_effect:
                _log.warning("option_without_effect", reason=sentence)
            start = self._options.start
            partitions = self._view.layout().partitions
            start.check_known("startingOffsets", partitions)
            late_is_error = self._options.no_later_record_is_error
            self._initial = document(self._view.offsets_of(start, partitions, late_is_error=late_is_error))
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        pace = self._options.pace
        if pace.offsets_max is not None:
            return ReadMaxRows(pace.offsets_max)
        return ReadAllAvailable() if pace.offsets_min is None else ReadMinRows(pace.offsets_min)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = dict(self._view.look({}).ends)

    def latestOffset(self, start: Document, limit: ReadLimit) -> Document:
        """Where the next batch ends; ``start`` itself if there shall be none yet."""
        finished = parse(start)
        sight = self._see(finished)
        losses = self._losses(finished, sight)
        resume = resume_places(losses)
        self._known_ids |= sight.topic_ids
        if self._options.commits_group:
            # What a partition stands at is not said of the topic that took the place of the former one.
            steady = {one: offset for one, offset in finished.items() if one not in resume}
            self._group.follow(steady, sight.topic_ids)
        if not self._anchored and start == self._initial:
            self._anchored = True
            return document(admission.next_offsets(finished, finished, sight.log_starts, resume, None))
        ends = admission.bounded(sight.ends, self._target)
        if not resume and self._shall_wait(admission.lag(finished, ends), limit):
            return start
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return document(admission.next_offsets(finished, ends, sight.log_starts, resume, most))

    def reportLatestOffset(self) -> Document | None:
        """The ends of logs as they were last seen: no question to the cluster."""
        return None if self._sight is None else document(self._sight.ends)

    def partitions(self, start: Document, end: Document) -> list[InputPartition]:
        self._anchored = True
        if self._sight is None:
            # A batch of an earlier run, planned again: nobody has looked yet whether its records are there.
            begun = parse(start)
            self._losses(begun, self._see(begun))
        tasks = plan_tasks(
            parse(start),
            parse(end),
            range_count_min=self._options.range_count_min,
            range_offsets_max=self._options.range_offsets_max,
        )
        return [OffsetRangesPartition(one) for one in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        # On executors, which need nothing of the planning above.
        from odradek.spark.source.range_reader import task_batches

        assert isinstance(partition, OffsetRangesPartition)
        yield from task_batches(self._options, partition.ranges, self._schema)

    def commit(self, end: Document) -> None:
        """Nothing: it is not called for the last batch of a run. ``latestOffset`` knows what is finished."""

    def stop(self) -> None:
        """Nothing: the process ends."""

    def _see(self, expected: Offsets) -> Sight:
        first = self._sight is None
        self._sight = self._view.look(expected)
        if first and self._options.commits_group and self._speaks_of_commits():
            # What was committed last is newer than what somebody kept.
            self._known_ids |= self._group.topic_ids(expected)
        return self._sight

    def _speaks_of_commits(self) -> bool:
        """Whether what the group has committed was said of this query: not if it begins elsewhere now."""
        return self._initial is None or self._options.start.needs_group

    def _losses(self, start: Offsets, sight: Sight) -> list[Loss]:
        """What is lost, if the user wants to go on nevertheless; else raises DataLoss."""
        losses = find_losses(start, sight, self._known_ids)
        if losses and self._options.fail_on_data_loss:
            raise refusal(losses)
        if losses:
            _log.warning("records_lost", reason=words_of(losses))
        return losses

    def _shall_wait(self, lag: int, limit: ReadLimit) -> bool:
        if self._target is not None or isinstance(limit, ReadAllAvailable):
            return False
        now_ms = system_environment().clock.monotonic_ms()
        since_ms = None if self._last_batch_ms is None else now_ms - self._last_batch_ms
        wait = self._options.pace.shall_wait(lag, since_ms)
        if not wait:
            self._last_batch_ms = now_ms
        return wait
