"""Selection of the log to clean, its cleanable section, and segment groups."""

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
    choose_filthiest,
    find_first_dirty,
    find_first_too_recent,
    find_first_uncleanable,
    group_segments_by_size,
    is_overdue,
    measure,
    offset_map_slots,
)

LONG = 2**63 - 1


# First dirty offset.


def test_log_without_checkpoint_is_dirty_from_its_start() -> None:
    assert find_first_dirty(None, 7, 100) == FirstDirty(7, False)


def test_valid_checkpoint_is_the_first_dirty_offset() -> None:
    assert find_first_dirty(50, 7, 100) == FirstDirty(50, False)
    assert find_first_dirty(7, 7, 100) == FirstDirty(7, False)
    assert find_first_dirty(100, 7, 100) == FirstDirty(100, False)


@pytest.mark.parametrize("checkpointed", [6, 101])
def test_checkpoint_outside_the_log_is_reset_to_its_start(checkpointed: int) -> None:
    assert find_first_dirty(checkpointed, 7, 100) == FirstDirty(7, True)


# First uncleanable offset.


def test_first_uncleanable_offset_is_the_smallest_limit() -> None:
    assert find_first_uncleanable(100, 90, 80, None) == 80
    assert find_first_uncleanable(70, 90, 80, None) == 70
    assert find_first_uncleanable(100, 60, 80, None) == 60
    assert find_first_uncleanable(100, 90, 80, 50) == 50


def test_segments_within_min_compaction_lag_are_uncleanable() -> None:
    timestamps = [(0, 1000), (10, 9001), (20, 2000)]
    assert find_first_too_recent(timestamps, 10_000, 1000) == 10
    assert find_first_too_recent(timestamps, 10_001, 1000) is None
    assert find_first_too_recent(timestamps, 0, 0) is None


def test_no_segment_after_the_first_too_recent_one_is_read() -> None:
    def timestamps() -> Iterator[tuple[int, int]]:
        yield 0, 10_000
        raise AssertionError

    assert find_first_too_recent(timestamps(), 10_000, 5) == 0


def test_log_is_overdue_after_max_compaction_lag() -> None:
    assert not is_overdue([9000, 9500], 10_000, 1000)
    assert is_overdue([9500, 8999], 10_000, 1000)
    assert not is_overdue([8999], 10_000, LONG)


def test_records_without_timestamp_are_not_overdue() -> None:
    assert not is_overdue([-1, 0], 10_000, 1000)


# Cleanable section.

SEGMENTS = [SegmentExtent(0, 100), SegmentExtent(10, 200), SegmentExtent(20, 400), SegmentExtent(30, 800)]


def test_log_without_checkpoint_is_dirty_except_the_active_segment() -> None:
    log_to_clean = measure(SEGMENTS, 0, 30, False)
    assert log_to_clean == LogToClean(0, 30, 0, 700, False)
    assert log_to_clean.dirty_ratio == 1.0


def test_partly_dirty_segment_counts_as_clean_and_dirty() -> None:
    assert measure(SEGMENTS, 15, 30, False) == LogToClean(15, 30, 300, 600, False)


def test_only_segments_entirely_below_the_limit_are_cleanable() -> None:
    assert measure(SEGMENTS, 0, 29, False).first_uncleanable_offset == 20
    assert measure(SEGMENTS, 0, 20, False).cleanable_bytes == 300
    assert measure(SEGMENTS, 0, 3, False) == LogToClean(0, 0, 0, 0, False)


def test_log_of_one_segment_has_nothing_to_clean() -> None:
    log_to_clean = measure([SegmentExtent(0, 100)], 0, 50, True)
    assert log_to_clean.cleanable_bytes == 0
    assert not log_to_clean.is_worth(0.0)


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=8),
    st.integers(0, 90),
    st.integers(0, 90),
)
def test_cleanable_section_never_includes_the_active_segment(
    sizes: list[int], first_dirty: int, uncleanable: int
) -> None:
    segments = [SegmentExtent(number * 10, size) for number, size in enumerate(sizes)]
    log_to_clean = measure(segments, first_dirty, uncleanable, False)
    bases = [segment.base_offset for segment in segments]
    assert log_to_clean.first_uncleanable_offset in bases
    assert log_to_clean.first_uncleanable_offset <= max(uncleanable, first_dirty)
    cleaned = [segment for segment in segments if segment.base_offset < log_to_clean.first_uncleanable_offset]
    assert log_to_clean.clean_bytes + log_to_clean.cleanable_bytes >= sum(
        segment.size_bytes for segment in cleaned
    )
    assert segments[-1] not in cleaned


# Filthiest log.


def log_with_dirty_ratio(dirty: int, *, overdue: bool = False) -> LogToClean:
    return LogToClean(0, 10, 100 - dirty, dirty, overdue)


def test_filthiest_log_is_chosen() -> None:
    assert choose_filthiest([("a", log_with_dirty_ratio(60), 0.5), ("b", log_with_dirty_ratio(90), 0.5)]) == (
        "b",
        log_with_dirty_ratio(90),
    )


def test_log_below_the_dirty_ratio_is_cleaned_only_when_overdue() -> None:
    assert choose_filthiest([("a", log_with_dirty_ratio(50), 0.5)]) is None
    assert choose_filthiest([("a", log_with_dirty_ratio(51), 0.5)]) is not None
    assert choose_filthiest([("a", log_with_dirty_ratio(1, overdue=True), 0.5)]) is not None
    assert choose_filthiest([("a", log_with_dirty_ratio(0, overdue=True), 0.0)]) is None


# Groups.


def sizes_of(*sizes: int, index_bytes: int = 0) -> list[SegmentSizes]:
    return [
        SegmentSizes(number * 10, number * 10 + 10, size, index_bytes, index_bytes)
        for number, size in enumerate(sizes)
    ]


def group_numbers(groups: list[range]) -> list[list[int]]:
    return [list(group_numbers) for group_numbers in groups]


def test_segments_are_grouped_up_to_the_segment_size() -> None:
    assert group_numbers(group_segments_by_size(sizes_of(40, 40, 40, 20, 100, 150, 1), 100, 1000)) == [
        [0, 1],
        [2, 3],
        [4],
        [5],
        [6],
    ]


def test_segments_are_grouped_up_to_the_index_size() -> None:
    assert group_numbers(group_segments_by_size(sizes_of(1, 1, 1, index_bytes=12), 100, 24)) == [[0, 1], [2]]


def test_offsets_of_a_group_fit_into_relative_offsets() -> None:
    far = 2**31
    segments = [
        SegmentSizes(0, 10, 1, 0, 0),
        SegmentSizes(10, far, 1, 0, 0),
        SegmentSizes(far, far + 1, 1, 0, 0),
    ]
    assert group_numbers(group_segments_by_size(segments, 100, 100)) == [[0, 1], [2]]
    without_batches = [segments[0], SegmentSizes(10, far + 5, 0, 0, 0), segments[2]]
    assert group_numbers(group_segments_by_size(without_batches, 100, 100))[0] == [0, 1]


def test_no_segments_make_no_groups() -> None:
    assert group_segments_by_size([], 100, 100) == []


@given(st.lists(st.integers(0, 60), max_size=80), st.integers(1, 100))
def test_groups_contain_all_segments_in_order_within_the_limit(sizes: list[int], limit: int) -> None:
    segments = sizes_of(*sizes)
    groups = group_segments_by_size(segments, limit, 1000) if segments else []
    assert [number for group_numbers in groups for number in group_numbers] == list(range(len(sizes)))
    for group_numbers in groups:
        assert len(group_numbers) == 1 or sum(sizes[number] for number in group_numbers) <= limit
        assert len(group_numbers) <= GROUP_SEGMENTS_MAX


# Memory.


def test_offset_map_slots_are_limited_by_memory_and_dirty_offsets() -> None:
    assert offset_map_slots(100, 24_000_000, 24, 0.9) == 113
    assert offset_map_slots(10**9, 24_000, 24, 0.9) == 1000
    assert offset_map_slots(5, 0, 24, 0.0) == 2
