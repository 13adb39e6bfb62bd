"""Markers: their format, and the checks of replayed batches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from odradek.spark.sink.markers import (
    Marker,
    MarkerKey,
    ReplayMismatch,
    StaleCheckpoint,
    check_batch_order,
    check_row_count,
    check_task_count,
    is_partly_written,
    is_replay_safe,
    markers_of_other_attempts,
    parse_marker,
)

KEY = MarkerKey("q", 3)
WEEK_MS = 7 * 24 * 60 * 60 * 1000


@given(some.integers(0, 2**62), some.none() | some.integers(0, 2**62))
def test_marker_round_trips(next_batch: int, rows_count: int | None) -> None:
    marker = Marker(next_batch, rows_count)
    assert parse_marker(marker.next_batch, marker.metadata) == marker


def test_marker_metadata_has_rows_and_attempt() -> None:
    marker = Marker(5, 9, "7f3a")
    assert marker.metadata == "rows=9 attempt=7f3a"
    assert parse_marker(5, marker.metadata) == marker


@pytest.mark.parametrize("metadata", [None, "", "rows=", "rows=x", "other metadata"])
def test_marker_with_other_metadata_has_no_row_count(metadata: str | None) -> None:
    assert parse_marker(5, metadata) == Marker(5)


@given(some.integers(0, 1000), some.integers(0, 1000))
def test_marker_covers_its_batch_and_all_earlier_ones(written: int, batch_id: int) -> None:
    assert Marker(written + 1).covers(batch_id) == (batch_id <= written)


def test_zero_marker_covers_nothing() -> None:
    assert not Marker(0).covers(0)


def test_groups_and_transactional_ids_are_distinct() -> None:
    keys = [MarkerKey("q", 0), MarkerKey("q", 1), MarkerKey("r", 0)]
    assert len({key.group for key in keys}) == len({key.transactional_id("p") for key in keys}) == 3


def test_row_count_mismatch_is_rejected() -> None:
    with pytest.raises(
        ReplayMismatch, match=r"batch 4 is replayed with 9 rows in partition 3 of q.* with 10"
    ):
        check_row_count(Marker(5, 10), KEY, 4, 9)


@pytest.mark.parametrize("marker", [Marker(5, 9), Marker(5)])
def test_equal_or_unknown_row_count_is_accepted(marker: Marker) -> None:
    check_row_count(marker, KEY, 4, 9)


def test_markers_of_other_attempts_exclude_this_attempt() -> None:
    markers = {0: Marker(5, 9, "mine"), 1: Marker(5, 9, "other"), 2: Marker(5, 9)}
    assert sorted(markers_of_other_attempts(markers, "mine")) == [1, 2]


def test_batch_is_partly_written_if_a_partition_has_its_marker() -> None:
    assert is_partly_written({0: Marker(4), 1: Marker(5)}, 4)
    assert not is_partly_written({0: Marker(4), 1: Marker(3)}, 4)
    assert not is_partly_written({}, 4)


def test_batch_before_a_written_one_raises_stale_checkpoint() -> None:
    with pytest.raises(StaleCheckpoint, match=r"batch 4, but .* up to batch 6.*newest checkpoint"):
        check_batch_order({0: Marker(5), 1: Marker(7)}, "q", 4)


@pytest.mark.parametrize("markers", [{}, {0: Marker(4)}, {0: Marker(5), 1: Marker(0)}])
def test_new_batch_and_last_batch_are_accepted(markers: dict[int, Marker]) -> None:
    check_batch_order(markers, "q", 4)


@pytest.mark.parametrize("tasks_count", [1, 2, 3])
def test_replay_with_fewer_tasks_than_markers_is_rejected(tasks_count: int) -> None:
    markers = {0: Marker(5), 3: Marker(5)}
    with pytest.raises(
        ReplayMismatch, match=rf"batch 4 of q is replayed with {tasks_count} tasks, but task 3"
    ):
        check_task_count(markers, "q", 4, tasks_count)


def test_markers_of_other_batches_do_not_limit_the_task_count() -> None:
    check_task_count({0: Marker(5), 3: Marker(4)}, "q", 4, 2)
    check_task_count({0: Marker(5), 3: Marker(5)}, "q", 4, 4)


@pytest.mark.parametrize(
    ("age_ms", "retention_ms", "is_safe"),
    [
        (0, 60_000, True),
        (50_000, 60_000, True),
        (59_000, 60_000, False),
        (61_000, 60_000, False),
        (WEEK_MS // 2, None, True),
        (WEEK_MS * 89 // 100, None, True),
        (WEEK_MS * 91 // 100, None, False),
        (WEEK_MS, None, False),
    ],
)
def test_replay_is_safe_within_the_retention_minus_margin(
    age_ms: int, retention_ms: int | None, is_safe: bool
) -> None:
    assert is_replay_safe(10_000, 10_000 + age_ms, retention_ms) is is_safe
