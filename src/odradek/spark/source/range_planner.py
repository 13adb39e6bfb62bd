"""Which tasks read which offsets.

A pure function of where a batch starts, where it ends, and the options. A batch that is planned again after
a failure gets the same ranges in the same order, whatever the cluster looks like by then: exactly-once sinks
rely on that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from odradek.model.ids import TopicPartition
from odradek.spark.source.ranges import Range

_ONE_PART: Final = 1
TASK_OFFSETS_MIN: Final = 5_000
"""Ranges that are shorter share a task: to start one takes longer than to read so many records."""


def plan_tasks(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    *,
    range_count_min: int | None = None,
    range_offsets_max: int | None = None,
) -> list[tuple[Range, ...]]:
    """The ranges of each task. Who asks for a number or a size of tasks gets one for each range.

    >>> castle, letters = TopicPartition("castle", 0), TopicPartition("letters", 0)
    >>> len(plan_tasks({castle: 0, letters: 0}, {castle: 9, letters: 9}))
    1
    """
    ranges = plan_ranges(start, end, range_count_min=range_count_min, range_offsets_max=range_offsets_max)
    if range_count_min is not None or range_offsets_max is not None:
        return [(one,) for one in ranges]
    tasks: list[tuple[Range, ...]] = []
    room = 0
    for one in ranges:
        if one.offset_count <= room:
            tasks[-1] += (one,)
        else:
            tasks.append((one,))
            room = TASK_OFFSETS_MIN
        room -= one.offset_count
    return tasks


def plan_ranges(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    *,
    range_count_min: int | None = None,
    range_offsets_max: int | None = None,
) -> list[Range]:
    """One range per partition that has something to read, split as Spark's own source splits; sorted.

    A partition that is in ``end`` alone is new: its offset there is where its reading begins, with the next
    batch. One whose ``end`` is below its ``start`` was set back, and has nothing to read either.

    >>> castle = TopicPartition("castle", 0)
    >>> [str(one) for one in plan_ranges({castle: 0}, {castle: 10}, range_count_min=2)]
    ['castle-0 [0, 5)', 'castle-0 [5, 10)']
    """
    ranges = [
        Range(partition.topic, partition.partition, start[partition], end[partition])
        for partition in sorted(end)
        if partition in start and start[partition] < end[partition]
    ]
    if range_offsets_max is not None:
        ranges = _split(ranges, {one: -(-one.offset_count // range_offsets_max) for one in ranges})
    if range_count_min is not None and len(ranges) < range_count_min:
        ranges = _split(ranges, _part_counts(ranges, range_count_min))
    return ranges


def _part_counts(ranges: Iterable[Range], count_min: int) -> dict[Range, int]:
    """How many parts each range gets, in proportion to its length.

    Ranges too short to be split are set aside first, so that the others share all the parts left over.
    """
    all_ranges = list(ranges)
    total = sum(one.offset_count for one in all_ranges)
    short = {one for one in all_ranges if _share(one, total, count_min) == _ONE_PART}
    long_total = total - sum(one.offset_count for one in short)
    long_count_min = max(count_min - len(short), 1)
    return {one: _ONE_PART if one in short else _share(one, long_total, long_count_min) for one in all_ranges}


def _share(one: Range, total: int, count: int) -> int:
    # Rounded half up, in whole numbers: floating point would lose offsets beyond 2**53.
    return max((2 * one.offset_count * count + total) // (2 * total), 1)


def _split(ranges: Iterable[Range], parts: Mapping[Range, int]) -> list[Range]:
    return [part for one in ranges for part in _parts(one, parts[one])]


def _parts(one: Range, count: int) -> Iterable[Range]:
    start = one.start
    for index in range(count):
        end = start + (one.end - start) // (count - index)
        if end > start:
            yield one._replace(start=start, end=end)
        start = end
