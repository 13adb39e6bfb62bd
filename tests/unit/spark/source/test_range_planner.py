"""Ranges of a batch: nothing left out, nothing twice, the same whenever they are planned."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from odradek import TopicPartition
from odradek.spark.options.offsets import document, parse
from odradek.spark.source.data_loss import Sight, find_losses, refusal
from odradek.spark.source.range_planner import TASK_OFFSETS_MIN, plan_ranges, plan_tasks
from odradek.spark.source.ranges import OffsetRangesPartition, Range

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
PARTITIONS = st.builds(TopicPartition, st.sampled_from(["a", "b", "c"]), st.integers(0, 3))
OFFSETS = st.dictionaries(PARTITIONS, st.integers(0, 1000))
COUNTS = st.none() | st.integers(1, 40)


@given(start=OFFSETS, end=OFFSETS, count_min=COUNTS, offsets_max=COUNTS, order=st.randoms())
def test_every_offset_is_read_once_in_a_plan_that_does_not_depend_on_order(
    start, end, count_min, offsets_max, order
) -> None:
    limits = {"range_count_min": count_min, "range_offsets_max": offsets_max}
    ranges = plan_ranges(start, end, **limits)
    planned = [(one.topic, one.partition, offset) for one in ranges for offset in range(one.start, one.end)]
    assert planned == [
        (*one, offset) for one in sorted(end) if one in start for offset in range(start[one], end[one])
    ]
    assert all(one.offset_count > 0 for one in ranges)
    shuffled_start, shuffled_end = list(start.items()), list(end.items())
    order.shuffle(shuffled_start)
    order.shuffle(shuffled_end)
    assert plan_ranges(dict(shuffled_start), dict(shuffled_end), **limits) == ranges
    if offsets_max is not None:
        assert all(one.offset_count <= offsets_max for one in ranges)


def test_without_limits_there_is_one_range_per_partition() -> None:
    ranges = plan_ranges({A0: 1, A1: 5, B0: 0}, {B0: 9, A0: 4, A1: 5})
    assert ranges == [Range("a", 0, 1, 4), Range("b", 0, 0, 9)]


def test_long_partitions_are_split_and_short_ones_are_not() -> None:
    ranges = plan_ranges({A0: 0, A1: 0}, {A0: 1000, A1: 1}, range_count_min=4)
    assert [one.offset_count for one in ranges if one.partition == 0] == [333, 333, 334]
    assert [one.offset_count for one in ranges if one.partition == 1] == [1]


def test_enough_partitions_are_not_split() -> None:
    assert len(plan_ranges({A0: 0, A1: 0}, {A0: 1000, A1: 1}, range_count_min=2)) == 2


def test_a_range_is_split_by_the_records_a_task_may_have_and_then_by_count() -> None:
    by_records = plan_ranges({A0: 0}, {A0: 100}, range_offsets_max=30)
    assert [one.offset_count for one in by_records] == [25, 25, 25, 25]
    assert len(plan_ranges({A0: 0}, {A0: 100}, range_offsets_max=30, range_count_min=8)) == 8


def test_offsets_beyond_what_floats_can_tell_are_split_exactly() -> None:
    far = 2**62
    ranges = plan_ranges({A0: far}, {A0: far + 3}, range_count_min=3)
    assert [one.start - far for one in ranges] == [0, 1, 2]


def test_new_and_set_back_partitions_have_nothing_to_read() -> None:
    assert plan_ranges({A0: 10}, {A0: 3, A1: 7}) == []


def test_ranges_travel_to_executors() -> None:
    sent = OffsetRangesPartition((Range("a", 0, 1, 4),))
    assert pickle.loads(pickle.dumps(sent)).ranges == (Range("a", 0, 1, 4),)


def test_thousands_of_partitions_are_planned_and_noted_one_by_one() -> None:
    start = {TopicPartition(f"topic-{number % 50}", number // 50): number for number in range(20_000)}
    end = {one: offset + 1 + offset % 3 for one, offset in start.items()}
    ranges = plan_ranges(start, end, range_count_min=30_000)
    assert sum(one.offset_count for one in ranges) == sum(end.values()) - sum(start.values())
    assert {TopicPartition(one.topic, one.partition) for one in ranges} == set(end)
    assert parse(document(end)) == end
    lost = find_losses(start, Sight({}, {}, {}), {})
    assert len(lost) == len(start)
    assert len(str(refusal(lost))) < 2_000


def test_short_ranges_share_a_task_and_long_ones_have_one_each() -> None:
    short, long = 10, TASK_OFFSETS_MIN
    tasks = plan_tasks({A0: 0, A1: 0, B0: 0}, {A0: short, A1: short, B0: long})
    assert tasks == [(Range("a", 0, 0, short), Range("a", 1, 0, short)), (Range("b", 0, 0, long),)]


def test_who_asks_for_tasks_gets_one_for_each_range() -> None:
    assert len(plan_tasks({A0: 0, A1: 0}, {A0: 9, A1: 9}, range_count_min=1)) == 2
    assert len(plan_tasks({A0: 0, A1: 0}, {A0: 9, A1: 9}, range_offsets_max=9)) == 2


@given(st.lists(st.integers(1, 2 * TASK_OFFSETS_MIN), max_size=40))
def test_tasks_have_all_ranges_in_order_and_no_two_neighbours_would_fit_into_one(lengths: list[int]) -> None:
    end = {TopicPartition("a", number): length for number, length in enumerate(lengths)}
    start = dict.fromkeys(end, 0)
    tasks = plan_tasks(start, end)
    assert [one for task in tasks for one in task] == plan_ranges(start, end)
    sizes = [sum(one.offset_count for one in task) for task in tasks]
    assert all(size <= TASK_OFFSETS_MIN or len(task) == 1 for size, task in zip(sizes, tasks, strict=True))
    assert all(
        size + after[0].offset_count > TASK_OFFSETS_MIN for size, after in zip(sizes, tasks[1:], strict=False)
    )
