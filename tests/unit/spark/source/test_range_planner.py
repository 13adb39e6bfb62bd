"""Planning of offset ranges: complete, without overlaps, and deterministic."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from odradek import TopicPartition
from odradek.spark.options.offsets import offsets_from_json, offsets_to_json
from odradek.spark.source.data_loss import LogOffsets, data_loss_error, find_losses
from odradek.spark.source.range_planner import TASK_OFFSETS_MIN, plan_ranges, plan_tasks
from odradek.spark.source.ranges import OffsetRange, OffsetRangesPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
PARTITIONS = st.builds(TopicPartition, st.sampled_from(["a", "b", "c"]), st.integers(0, 3))
OFFSETS = st.dictionaries(PARTITIONS, st.integers(0, 1000))
COUNTS = st.none() | st.integers(1, 40)


@given(start=OFFSETS, end=OFFSETS, count_min=COUNTS, offsets_max=COUNTS, order=st.randoms())
def test_every_offset_is_planned_once_in_a_deterministic_order(
    start, end, count_min, offsets_max, order
) -> None:
    limits = {"range_count_min": count_min, "range_offsets_max": offsets_max}
    ranges = plan_ranges(start, end, **limits)
    planned = [
        (range_.topic, range_.partition, offset)
        for range_ in ranges
        for offset in range(range_.start, range_.end)
    ]
    assert planned == [
        (*partition, offset)
        for partition in sorted(end)
        if partition in start
        for offset in range(start[partition], end[partition])
    ]
    assert all(range_.offset_count > 0 for range_ in ranges)
    shuffled_start, shuffled_end = list(start.items()), list(end.items())
    order.shuffle(shuffled_start)
    order.shuffle(shuffled_end)
    assert plan_ranges(dict(shuffled_start), dict(shuffled_end), **limits) == ranges
    if offsets_max is not None:
        assert all(range_.offset_count <= offsets_max for range_ in ranges)


def test_without_limits_there_is_one_range_per_partition() -> None:
    ranges = plan_ranges({A0: 1, A1: 5, B0: 0}, {B0: 9, A0: 4, A1: 5})
    assert ranges == [OffsetRange("a", 0, 1, 4), OffsetRange("b", 0, 0, 9)]


def test_long_ranges_are_split_and_short_ones_are_not() -> None:
    ranges = plan_ranges({A0: 0, A1: 0}, {A0: 1000, A1: 1}, range_count_min=4)
    assert [range_.offset_count for range_ in ranges if range_.partition == 0] == [333, 333, 334]
    assert [range_.offset_count for range_ in ranges if range_.partition == 1] == [1]


def test_ranges_are_not_split_if_there_are_enough() -> None:
    assert len(plan_ranges({A0: 0, A1: 0}, {A0: 1000, A1: 1}, range_count_min=2)) == 2


def test_ranges_are_split_by_max_records_and_then_by_count() -> None:
    by_records = plan_ranges({A0: 0}, {A0: 100}, range_offsets_max=30)
    assert [range_.offset_count for range_ in by_records] == [25, 25, 25, 25]
    assert len(plan_ranges({A0: 0}, {A0: 100}, range_offsets_max=30, range_count_min=8)) == 8


def test_offsets_beyond_float_precision_are_split_exactly() -> None:
    far = 2**62
    ranges = plan_ranges({A0: far}, {A0: far + 3}, range_count_min=3)
    assert [range_.start - far for range_ in ranges] == [0, 1, 2]


def test_new_and_reset_partitions_have_nothing_to_read() -> None:
    assert plan_ranges({A0: 10}, {A0: 3, A1: 7}) == []


def test_input_partitions_pickle() -> None:
    input_partition = OffsetRangesPartition((OffsetRange("a", 0, 1, 4),))
    assert pickle.loads(pickle.dumps(input_partition)).ranges == (OffsetRange("a", 0, 1, 4),)


def test_thousands_of_partitions_are_planned() -> None:
    start = {TopicPartition(f"topic-{number % 50}", number // 50): number for number in range(20_000)}
    end = {partition: offset + 1 + offset % 3 for partition, offset in start.items()}
    ranges = plan_ranges(start, end, range_count_min=30_000)
    assert sum(range_.offset_count for range_ in ranges) == sum(end.values()) - sum(start.values())
    assert {TopicPartition(range_.topic, range_.partition) for range_ in ranges} == set(end)
    assert offsets_from_json(offsets_to_json(end)) == end
    lost = find_losses(start, LogOffsets({}, {}, {}), {})
    assert len(lost) == len(start)
    assert len(str(data_loss_error(lost))) < 2_000


def test_short_ranges_share_a_task() -> None:
    short, long = 10, TASK_OFFSETS_MIN
    tasks = plan_tasks({A0: 0, A1: 0, B0: 0}, {A0: short, A1: short, B0: long})
    assert tasks == [
        (OffsetRange("a", 0, 0, short), OffsetRange("a", 1, 0, short)),
        (OffsetRange("b", 0, 0, long),),
    ]


def test_requested_range_count_or_size_gives_one_task_per_range() -> None:
    assert len(plan_tasks({A0: 0, A1: 0}, {A0: 9, A1: 9}, range_count_min=1)) == 2
    assert len(plan_tasks({A0: 0, A1: 0}, {A0: 9, A1: 9}, range_offsets_max=9)) == 2


@given(st.lists(st.integers(1, 2 * TASK_OFFSETS_MIN), max_size=40))
def test_tasks_have_all_ranges_in_order_and_are_filled(lengths: list[int]) -> None:
    end = {TopicPartition("a", number): length for number, length in enumerate(lengths)}
    start = dict.fromkeys(end, 0)
    tasks = plan_tasks(start, end)
    assert [range_ for task in tasks for range_ in task] == plan_ranges(start, end)
    sizes = [sum(range_.offset_count for range_ in task) for task in tasks]
    assert all(size <= TASK_OFFSETS_MIN or len(task) == 1 for size, task in zip(sizes, tasks, strict=True))
    assert all(
        size + next_task[0].offset_count > TASK_OFFSETS_MIN
        for size, next_task in zip(sizes, tasks[1:], strict=False)
    )
