"""Batch queries: what lies between two positions, planned on the driver and read by tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from odradek.model.errors import ConfigError
from odradek.model.ids import TopicPartition
from odradek.spark.options import admission
from odradek.spark.options.offsets import AtOffset, Offsets
from odradek.spark.options.source_options import SourceOptions
from odradek.spark.source.data_loss import Sight, batch_losses, refusal, words_of
from odradek.spark.source.offset_reader import OffsetReader
from odradek.spark.source.range_planner import plan_tasks
from odradek.spark.source.ranges import OffsetRangesPartition
from odradek.spark.worker.quick_ack import QuickAckOnUnpickle
from odradek.telemetry import events

_log: Final = events.logger("spark")


class TopicReader(QuickAckOnUnpickle, DataSourceReader):
    """Reads the records between ``startingOffsets`` and ``endingOffsets``."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        options = self._options
        for sentence in options.without_effect:
            _log.warning("option_without_effect", reason=sentence)
        view = OffsetReader(options)
        partitions = view.layout().partitions
        options.start.check_known("startingOffsets", partitions)
        options.end.check_known("endingOffsets", partitions)
        start = view.offsets_of(options.start, partitions, late_is_error=options.no_later_record_is_error)
        end = view.offsets_of(options.end, partitions)
        check_order(options, start, end)
        tasks = plan_tasks(
            start,
            self._available(start, end, view.look({})),
            range_count_min=options.range_count_min,
            range_offsets_max=options.range_offsets_max,
        )
        return [OffsetRangesPartition(one) for one in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        # On executors, which need nothing of the planning above.
        from odradek.spark.source.range_reader import task_batches

        # Where there is nothing to read, Spark makes one partition of its own.
        if isinstance(partition, OffsetRangesPartition):
            yield from task_batches(self._options, partition.ranges, self._schema)

    def _available(self, start: Offsets, end: Offsets, sight: Sight) -> Offsets:
        """How far can be read of what is asked for, if the user wants to go on without the rest."""
        losses = batch_losses(start, end, sight)
        if losses and self._options.fail_on_data_loss:
            raise refusal(losses)
        if losses:
            _log.warning("records_lost", reason=words_of(losses))
        return admission.bounded(end, sight.ends)


def check_order(
    options: SourceOptions, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> None:
    """Raises ConfigError where both offsets were given and the end lies before the start."""
    turned = [
        f"startingOffsets of {one} ({start[one]}) lies above its endingOffsets ({end[one]})"
        for one in sorted(start)
        if isinstance(options.start.of(one), AtOffset)
        and isinstance(options.end.of(one), AtOffset)
        and start[one] > end[one]
    ]
    if turned:
        raise ConfigError(turned)
