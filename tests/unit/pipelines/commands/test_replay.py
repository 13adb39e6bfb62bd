"""What a replay reads, and by what name the sink knows it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.pipelines.pipeline_spec import spec_of

from odradek.cli.errors import CommandFailed
from odradek.cli.groups.reset_plan import InvalidResetTarget
from odradek.model.ids import TopicPartition
from odradek.pipelines.commands.replay import (
    Window,
    check_sink,
    fresh_replay,
    pinned_replay,
    pinned_text,
    read_window,
    replay_id,
)

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
WINDOW = Window(0, 10)


def test_a_window_is_two_times() -> None:
    assert read_window("1970-01-01", "1970-01-01T00:00:01") == Window(0, 1000)


@pytest.mark.parametrize(("start", "end"), [("1970-01-02", "1970-01-01"), ("1970-01-01", "1970-01-01")])
def test_a_window_that_ends_before_it_begins_is_refused(start: str, end: str) -> None:
    with pytest.raises(InvalidResetTarget, match="is not before"):
        read_window(start, end)


def test_a_replay_names_every_partition_and_counts_its_rows() -> None:
    found = fresh_replay("orders", WINDOW, {A: 3, B: 5}, {A: 9, B: 5})
    assert (found.start, found.end) == ({"t": {0: 3, 1: 5}}, {"t": {0: 9, 1: 5}})
    assert found.row_count == 6
    assert [one["rows"] for one in found.rows()] == [6, 0]


def test_times_that_run_backwards_in_a_log_give_an_empty_range() -> None:
    assert fresh_replay("orders", WINDOW, {A: 9}, {A: 3}).row_count == 0


def test_a_window_replayed_before_reads_the_rows_of_then() -> None:
    then = fresh_replay("orders", WINDOW, {A: 3}, {A: 9})
    now = fresh_replay("orders", WINDOW, {A: 3}, {A: 14})
    again = pinned_replay("orders", WINDOW, pinned_text(then), now)
    assert again == then._replace(came_later=5)


def test_a_pin_without_offsets_is_told() -> None:
    with pytest.raises(CommandFailed, match=r"replays/0-10.json .* orders"):
        pinned_replay("orders", WINDOW, '{"start": 1, "end": 2}', fresh_replay("orders", WINDOW, {}, {}))


OFFSETS = st.fixed_dictionaries({"t": st.dictionaries(st.integers(0, 3), st.integers(0, 20))})


@given(OFFSETS, OFFSETS, OFFSETS, OFFSETS)
def test_an_id_stands_for_its_rows(
    start: dict[str, dict[int, int]],
    end: dict[str, dict[int, int]],
    other_start: dict[str, dict[int, int]],
    other_end: dict[str, dict[int, int]],
) -> None:
    same = (start, end) == (other_start, other_end)
    ids = replay_id("p", WINDOW, start, end), replay_id("p", WINDOW, other_start, other_end)
    assert (ids[0] == ids[1]) == same


def test_a_sink_that_replaces_everything_is_not_replayed_into() -> None:
    check_sink(spec_of())
    with pytest.raises(CommandFailed, match="mode = complete"):
        check_sink(spec_of(sink='type = "delta"\npath = "lake"\nmode = "complete"'))
