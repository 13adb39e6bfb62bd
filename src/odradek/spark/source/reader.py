"""Batch queries: a DataSourceReader that plans offset ranges on the driver and reads them in tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from odradek.model.errors import ConfigError
from odradek.model.ids import TopicPartition
from odradek.spark.options.offsets import Offsets, SpecificOffset
from odradek.spark.options.source_options import SourceOptions
from odradek.spark.source import admission
from odradek.spark.source.data_loss import LogOffsets, batch_losses, data_loss_error, describe_losses
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
        for message in options.without_effect:
            _log.warning("option_without_effect", reason=message)
        offset_reader = OffsetReader(options)
        partitions = offset_reader.fetch_partitions().partitions
        options.start.check_known("startingOffsets", partitions)
        options.end.check_known("endingOffsets", partitions)
        start = offset_reader.fetch_offsets(
            options.start, partitions, late_is_error=options.no_later_record_is_error
        )
        end = offset_reader.fetch_offsets(options.end, partitions)
        check_order(options, start, end)
        tasks = plan_tasks(
            start,
            self._available(start, end, offset_reader.fetch_log_offsets({})),
            range_count_min=options.range_count_min,
            range_offsets_max=options.range_offsets_max,
        )
        return [OffsetRangesPartition(ranges) for ranges in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        # Imported on executors only.
        from odradek.spark.source.range_reader import task_batches

        # Without input partitions Spark creates one of its own.
        if isinstance(partition, OffsetRangesPartition):
            yield from task_batches(self._options, partition.ranges, self._schema)

    def _available(self, start: Offsets, end: Offsets, log_offsets: LogOffsets) -> Offsets:
        """Return the end offsets that can be read; raise DataLoss unless losses are accepted."""
        losses = batch_losses(start, end, log_offsets)
        if losses and self._options.fail_on_data_loss:
            raise data_loss_error(losses)
        if losses:
            _log.warning("records_lost", reason=describe_losses(losses))
        return admission.bounded(end, log_offsets.ends)


def check_order(
    options: SourceOptions, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> None:
    """Raise ConfigError where both offsets are specific and the end is before the start."""
    problems = [
        f"startingOffsets of {partition} must be <= its endingOffsets ({end[partition]}), "
        f"got {start[partition]}"
        for partition in sorted(start)
        if isinstance(options.start.of(partition), SpecificOffset)
        and isinstance(options.end.of(partition), SpecificOffset)
        and start[partition] > end[partition]
    ]
    if problems:
        raise ConfigError(problems)
