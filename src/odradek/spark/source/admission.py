"""Admission control: the end offsets of the next micro-batch. Pure.

A batch reads all available records, or up to a limit that partitions share in proportion to their lag. Three
changes read nothing, and only put an offset into the checkpoint for the next batch: a new partition is added
at its log start offset, a partition that lost its log is reset, a deleted partition is removed.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.model.ids import TopicPartition
from odradek.spark.options.offsets import Offsets


def bounded(ends: Mapping[TopicPartition, int], target: Mapping[TopicPartition, int] | None) -> Offsets:
    """Return the end offsets capped by ``target``: an AvailableNow run reads what existed at its start."""
    if target is None:
        return dict(ends)
    return {partition: min(end, target[partition]) for partition, end in ends.items() if partition in target}


def lag(start: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> int:
    """Return the number of offsets between a query's position and the log ends."""
    return sum(max(ends[partition] - offset, 0) for partition, offset in start.items() if partition in ends)


def next_offsets(
    start: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    log_starts: Mapping[TopicPartition, int],
    resume: Mapping[TopicPartition, int | None],
    offsets_max: int | None,
) -> Offsets:
    """Return the end of the next batch. ``resume`` has offsets after data loss; None if deleted."""
    unaffected = {partition: offset for partition, offset in start.items() if partition not in resume}
    batch_ends = _proportional(unaffected, ends, offsets_max)
    batch_ends.update((partition, offset) for partition, offset in resume.items() if offset is not None)
    batch_ends.update((partition, log_starts[partition]) for partition in ends if partition not in start)
    return batch_ends


def _proportional(
    start: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], offsets_max: int | None
) -> Offsets:
    """Share the limit by lag. A share is at least 1, so that a partition with a small lag is not starved."""
    lags = {partition: max(ends.get(partition, offset) - offset, 0) for partition, offset in start.items()}
    total = sum(lags.values())
    if offsets_max is None or total <= offsets_max:
        return {partition: offset + lags[partition] for partition, offset in start.items()}
    shares = {
        partition: max(offsets_max * partition_lag // total, 1) if partition_lag else 0
        for partition, partition_lag in lags.items()
    }
    return {
        partition: offset + min(shares[partition], lags[partition]) for partition, offset in start.items()
    }
