"""What of a log is to be compacted, which log next, and how its segments are grouped."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.log.cleaning.log_to_clean import (
    GROUP_SEGMENTS_MAX,
    FirstDirty,
    LogToClean,
    SegmentExtent,
    SegmentSizes,
    choose,
    find_first_dirty,
    find_first_young,
    find_uncleanable,
    group,
    is_overdue,
    measure,
    slots_for,
)

LONG = 2**63 - 1


# Where the dirty part begins.


def test_what_was_never_compacted_is_dirty_from_its_start() -> None:
    assert find_first_dirty(None, 7, 100) == FirstDirty(7, False)


def test_what_was_written_down_counts_if_it_can_be_true() -> None:
    assert find_first_dirty(50, 7, 100) == FirstDirty(50, False)
    assert find_first_dirty(7, 7, 100) == FirstDirty(7, False)
    assert find_first_dirty(100, 7, 100) == FirstDirty(100, False)


@pytest.mark.parametrize("checkpointed", [6, 101])
def test_an_offset_outside_the_log_is_replaced_by_its_start(checkpointed: int) -> None:
    assert find_first_dirty(checkpointed, 7, 100) == FirstDirty(7, True)


# How far it may be touched.


def test_neither_unstable_nor_unflushed_nor_young_records_nor_the_last_segment_are_touched() -> None:
    assert find_uncleanable(100, 90, 80, None) == 80
    assert find_uncleanable(70, 90, 80, None) == 70
    assert find_uncleanable(100, 60, 80, None) == 60
    assert find_uncleanable(100, 90, 80, 50) == 50


def test_segments_are_left_from_the_first_that_is_younger_than_the_lag() -> None:
    times = [(0, 1000), (10, 9001), (20, 2000)]
    assert find_first_young(times, 10_000, 1000) == 10
    assert find_first_young(times, 10_001, 1000) is None
    assert find_first_young(times, 0, 0) is None


def test_no_segment_after_the_first_young_one_is_read() -> None:
    def times() -> Iterator[tuple[int, int]]:
        yield 0, 10_000
        raise AssertionError

    assert find_first_young(times(), 10_000, 5) == 0


def test_a_log_is_overdue_when_a_segment_begins_before_the_longest_lag() -> None:
    assert not is_overdue([9000, 9500], 10_000, 1000)
    assert is_overdue([9500, 8999], 10_000, 1000)
    assert not is_overdue([8999], 10_000, LONG)


def test_records_without_a_time_make_no_log_overdue() -> None:
    assert not is_overdue([-1, 0], 10_000, 1000)


# How much there is to do.

SEGMENTS = [SegmentExtent(0, 100), SegmentExtent(10, 200), SegmentExtent(20, 400), SegmentExtent(30, 800)]


def test_a_log_that_was_never_compacted_is_all_dirty_but_for_its_last_segment() -> None:
    found = measure(SEGMENTS, 0, 30, False)
    assert found == LogToClean(0, 30, 0, 700, False)
    assert found.dirty_ratio == 1.0


def test_a_segment_that_is_half_dirty_counts_on_both_sides() -> None:
    assert measure(SEGMENTS, 15, 30, False) == LogToClean(15, 30, 300, 600, False)


def test_only_whole_segments_below_the_bound_are_cleanable() -> None:
    assert measure(SEGMENTS, 0, 29, False).first_uncleanable_offset == 20
    assert measure(SEGMENTS, 0, 20, False).cleanable_bytes == 300
    assert measure(SEGMENTS, 0, 3, False) == LogToClean(0, 0, 0, 0, False)


def test_a_log_of_one_segment_has_nothing_to_do() -> None:
    found = measure([SegmentExtent(0, 100)], 0, 50, True)
    assert found.cleanable_bytes == 0
    assert not found.is_worth(0.0)


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=8),
    st.integers(0, 90),
    st.integers(0, 90),
)
def test_a_round_never_reaches_the_last_segment_nor_the_bound(
    sizes: list[int], first_dirty: int, uncleanable: int
) -> None:
    segments = [SegmentExtent(number * 10, size) for number, size in enumerate(sizes)]
    found = measure(segments, first_dirty, uncleanable, False)
    bases = [one.base_offset for one in segments]
    assert found.first_uncleanable_offset in bases
    assert found.first_uncleanable_offset <= max(uncleanable, first_dirty)
    cleaned = [one for one in segments if one.base_offset < found.first_uncleanable_offset]
    assert found.clean_bytes + found.cleanable_bytes >= sum(one.size_bytes for one in cleaned)
    assert segments[-1] not in cleaned


# Which log.


def of_ratio(dirty: int, *, overdue: bool = False) -> LogToClean:
    return LogToClean(0, 10, 100 - dirty, dirty, overdue)


def test_the_dirtiest_log_comes_first() -> None:
    assert choose([("a", of_ratio(60), 0.5), ("b", of_ratio(90), 0.5)]) == ("b", of_ratio(90))


def test_a_log_below_its_ratio_is_left_alone_until_it_is_overdue() -> None:
    assert choose([("a", of_ratio(50), 0.5)]) is None
    assert choose([("a", of_ratio(51), 0.5)]) is not None
    assert choose([("a", of_ratio(1, overdue=True), 0.5)]) is not None
    assert choose([("a", of_ratio(0, overdue=True), 0.0)]) is None


# Groups.


def sizes_of(*sizes: int, index_bytes: int = 0) -> list[SegmentSizes]:
    return [
        SegmentSizes(number * 10, number * 10 + 10, size, index_bytes, index_bytes)
        for number, size in enumerate(sizes)
    ]


def numbers(groups: list[range]) -> list[list[int]]:
    return [list(one) for one in groups]


def test_neighbours_are_joined_up_to_the_size_of_a_segment() -> None:
    assert numbers(group(sizes_of(40, 40, 40, 20, 100, 150, 1), 100, 1000)) == [[0, 1], [2, 3], [4], [5], [6]]


def test_neighbours_are_joined_while_their_indexes_fit() -> None:
    assert numbers(group(sizes_of(1, 1, 1, index_bytes=12), 100, 24)) == [[0, 1], [2]]


def test_offsets_of_a_group_are_within_reach_of_its_first() -> None:
    far = 2**31
    segments = [
        SegmentSizes(0, 10, 1, 0, 0),
        SegmentSizes(10, far, 1, 0, 0),
        SegmentSizes(far, far + 1, 1, 0, 0),
    ]
    assert numbers(group(segments, 100, 100)) == [[0, 1], [2]]
    without_batches = [segments[0], SegmentSizes(10, far + 5, 0, 0, 0), segments[2]]
    assert numbers(group(without_batches, 100, 100))[0] == [0, 1]


def test_nothing_is_grouped_where_there_is_nothing() -> None:
    assert group([], 100, 100) == []


@given(st.lists(st.integers(0, 60), max_size=80), st.integers(1, 100))
def test_groups_are_all_segments_in_order_and_none_is_too_large(sizes: list[int], limit: int) -> None:
    segments = sizes_of(*sizes)
    groups = group(segments, limit, 1000) if segments else []
    assert [number for one in groups for number in one] == list(range(len(sizes)))
    for one in groups:
        assert len(one) == 1 or sum(sizes[number] for number in one) <= limit
        assert len(one) <= GROUP_SEGMENTS_MAX


# Memory.


def test_a_map_is_as_large_as_the_dirty_offsets_can_need_and_no_larger_than_allowed() -> None:
    assert slots_for(100, 24_000_000, 24, 0.9) == 113
    assert slots_for(10**9, 24_000, 24, 0.9) == 1000
    assert slots_for(5, 0, 24, 0.0) == 2
