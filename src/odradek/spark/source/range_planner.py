"""Assignment of offset ranges to tasks.

A pure function of a batch's start offsets, end offsets and options. A batch that is planned again after a
failure gets the same ranges in the same order, whatever the state of the cluster: exactly-once sinks rely on
that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from odradek.model.ids import TopicPartition
from odradek.spark.source.ranges import OffsetRange

_ONE_PART: Final = 1
TASK_OFFSETS_MIN: Final = 5_000
"""Shorter ranges share a task: starting a task takes longer than reading this many records."""


def plan_tasks(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    *,
    range_count_min: int | None = None,
    range_offsets_max: int | None = None,
) -> list[tuple[OffsetRange, ...]]:
    """Return the ranges of each task. With a requested number or size of ranges, each has its own task.

    >>> castle, letters = TopicPartition("castle", 0), TopicPartition("letters", 0)
    >>> len(plan_tasks({castle: 0, letters: 0}, {castle: 9, letters: 9}))
    1
    """
    ranges = plan_ranges(start, end, range_count_min=range_count_min, range_offsets_max=range_offsets_max)
    if range_count_min is not None or range_offsets_max is not None:
        return [(range_,) for range_ in ranges]
    tasks: list[tuple[OffsetRange, ...]] = []
    room = 0
    for range_ in ranges:
        if range_.offset_count <= room:
            tasks[-1] += (range_,)
        else:
            tasks.append((range_,))
            room = TASK_OFFSETS_MIN
        room -= range_.offset_count
    return tasks


def plan_ranges(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    *,
    range_count_min: int | None = None,
    range_offsets_max: int | None = None,
) -> list[OffsetRange]:
    """Return one range per partition with offsets to read, split as by Spark's own source; sorted.

    A partition that is only in ``end`` is new: its reading starts at that offset, in the next batch. A
    partition whose ``end`` is below its ``start`` was reset, and has nothing to read either.

    >>> castle = TopicPartition("castle", 0)
    >>> [str(range_) for range_ in plan_ranges({castle: 0}, {castle: 10}, range_count_min=2)]
    ['castle-0 [0, 5)', 'castle-0 [5, 10)']
    """
    ranges = [
        OffsetRange(partition.topic, partition.partition, start[partition], end[partition])
        for partition in sorted(end)
        if partition in start and start[partition] < end[partition]
    ]
    if range_offsets_max is not None:
        ranges = _split(ranges, {range_: -(-range_.offset_count // range_offsets_max) for range_ in ranges})
    if range_count_min is not None and len(ranges) < range_count_min:
        ranges = _split(ranges, _part_counts(ranges, range_count_min))
    return ranges


def _part_counts(ranges: Iterable[OffsetRange], count_min: int) -> dict[OffsetRange, int]:
    """Return the number of parts of each range, in proportion to its length.

    Ranges too short to be split are excluded first, so that the others share all remaining parts.
    """
    all_ranges = list(ranges)
    total = sum(range_.offset_count for range_ in all_ranges)
    short = {range_ for range_ in all_ranges if _share(range_, total, count_min) == _ONE_PART}
    long_total = total - sum(range_.offset_count for range_ in short)
    long_count_min = max(count_min - len(short), 1)
    return {
        range_: _ONE_PART if range_ in short else _share(range_, long_total, long_count_min)
        for range_ in all_ranges
    }


def _share(range_: OffsetRange, total: int, count: int) -> int:
    # Rounded half up, in integers: floating point would lose offsets beyond 2**53.
    return max((2 * range_.offset_count * count + total) // (2 * total), 1)


def _split(ranges: Iterable[OffsetRange], parts: Mapping[OffsetRange, int]) -> list[OffsetRange]:
    return [part for range_ in ranges for part in _parts(range_, parts[range_])]


def _parts(range_: OffsetRange, count: int) -> Iterable[OffsetRange]:
    start = range_.start
    for index in range(count):
        end = start + (range_.end - start) // (count - index)
        if end > start:
            yield range_._replace(start=start, end=end)
        start = end
