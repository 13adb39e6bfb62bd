"""Markers: what was written, told from what was not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from odradek.spark.sink.markers import (
    Marker,
    MarkerKey,
    ReplayMismatch,
    StaleCheckpoint,
    check_position,
    check_replay,
    check_tasks,
    is_partly_written,
    is_replay_safe,
    marker_of,
    of_other_attempts,
)

KEY = MarkerKey("q", 3)
WEEK_MS = 7 * 24 * 60 * 60 * 1000


@given(some.integers(0, 2**62), some.none() | some.integers(0, 2**62))
def test_a_marker_is_read_as_it_was_written(next_batch: int, rows_count: int | None) -> None:
    marker = Marker(next_batch, rows_count)
    assert marker_of(marker.next_batch, marker.metadata) == marker


def test_a_marker_tells_which_attempt_wrote_it() -> None:
    marker = Marker(5, 9, "7f3a")
    assert marker.metadata == "rows=9 attempt=7f3a"
    assert marker_of(5, marker.metadata) == marker


@pytest.mark.parametrize("metadata", [None, "", "rows=", "rows=x", "somebody's note"])
def test_a_marker_with_a_note_of_others_tells_no_rows(metadata: str | None) -> None:
    assert marker_of(5, metadata) == Marker(5)


@given(some.integers(0, 1000), some.integers(0, 1000))
def test_a_batch_is_covered_by_its_own_marker_and_all_later_ones(written: int, asked: int) -> None:
    assert Marker(written + 1).covers(asked) == (asked <= written)


def test_without_a_marker_nothing_is_written() -> None:
    assert not Marker(0).covers(0)


def test_a_query_and_its_partitions_have_names_of_their_own() -> None:
    keys = [MarkerKey("q", 0), MarkerKey("q", 1), MarkerKey("r", 0)]
    assert len({key.group for key in keys}) == len({key.transactional_id("p") for key in keys}) == 3


def test_a_batch_that_comes_again_with_other_rows_is_refused() -> None:
    with pytest.raises(
        ReplayMismatch, match=r"batch 4 comes again with 9 rows in partition 3 of q.* with 10"
    ):
        check_replay(Marker(5, 10), KEY, 4, 9)


@pytest.mark.parametrize("marker", [Marker(5, 9), Marker(5)])
def test_a_batch_that_comes_again_with_its_rows_is_let_pass(marker: Marker) -> None:
    check_replay(marker, KEY, 4, 9)


def test_markers_of_this_attempt_tell_nothing_of_earlier_ones() -> None:
    markers = {0: Marker(5, 9, "mine"), 1: Marker(5, 9, "other"), 2: Marker(5, 9)}
    assert sorted(of_other_attempts(markers, "mine")) == [1, 2]


def test_a_batch_is_partly_written_if_a_task_has_its_marker() -> None:
    assert is_partly_written({0: Marker(4), 1: Marker(5)}, 4)
    assert not is_partly_written({0: Marker(4), 1: Marker(3)}, 4)
    assert not is_partly_written({}, 4)


def test_a_batch_after_which_others_were_written_is_refused() -> None:
    with pytest.raises(StaleCheckpoint, match=r"batch 4, but .* up to batch 6.*newest checkpoint"):
        check_position({0: Marker(5), 1: Marker(7)}, "q", 4)


@pytest.mark.parametrize("markers", [{}, {0: Marker(4)}, {0: Marker(5), 1: Marker(0)}])
def test_a_batch_that_is_new_or_the_last_one_is_let_pass(markers: dict[int, Marker]) -> None:
    check_position(markers, "q", 4)


@pytest.mark.parametrize("tasks_count", [1, 2, 3])
def test_a_batch_of_which_a_task_too_many_has_written_is_refused(tasks_count: int) -> None:
    markers = {0: Marker(5), 3: Marker(5)}
    with pytest.raises(
        ReplayMismatch, match=rf"batch 4 of q comes again with {tasks_count} tasks, and task 3"
    ):
        check_tasks(markers, "q", 4, tasks_count)


def test_tasks_beyond_that_wrote_other_batches_are_nothing_to_this_one() -> None:
    check_tasks({0: Marker(5), 3: Marker(4)}, "q", 4, 2)
    check_tasks({0: Marker(5), 3: Marker(5)}, "q", 4, 4)


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
def test_a_replay_is_safe_while_markers_are_kept_with_some_time_to_spare(
    age_ms: int, retention_ms: int | None, is_safe: bool
) -> None:
    assert is_replay_safe(10_000, 10_000 + age_ms, retention_ms) is is_safe
