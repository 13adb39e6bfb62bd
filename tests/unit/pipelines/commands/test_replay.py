"""Replay of a window: its offsets and its id."""

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
    new_replay,
    read_window,
    replay_id,
    replay_json,
    stored_replay,
)

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
WINDOW = Window(0, 10)


def test_window_is_parsed() -> None:
    assert read_window("1970-01-01", "1970-01-01T00:00:01") == Window(0, 1000)


@pytest.mark.parametrize(("start", "end"), [("1970-01-02", "1970-01-01"), ("1970-01-01", "1970-01-01")])
def test_reversed_window_is_rejected(start: str, end: str) -> None:
    with pytest.raises(InvalidResetTarget, match="--from must be before --to"):
        read_window(start, end)


def test_replay_lists_every_partition_and_counts_rows() -> None:
    replay = new_replay("orders", WINDOW, {A: 3, B: 5}, {A: 9, B: 5})
    assert (replay.start, replay.end) == ({"t": {0: 3, 1: 5}}, {"t": {0: 9, 1: 5}})
    assert replay.row_count == 6
    assert [row["rows"] for row in replay.rows()] == [6, 0]


def test_decreasing_timestamps_give_an_empty_range() -> None:
    assert new_replay("orders", WINDOW, {A: 9}, {A: 3}).row_count == 0


def test_repeated_replay_reads_the_stored_rows() -> None:
    first = new_replay("orders", WINDOW, {A: 3}, {A: 9})
    current = new_replay("orders", WINDOW, {A: 3}, {A: 14})
    repeated = stored_replay("orders", WINDOW, replay_json(first), current)
    assert repeated == first._replace(late_count=5)


def test_stored_replay_without_offsets_is_rejected() -> None:
    with pytest.raises(CommandFailed, match=r"replays/0-10.json .* orders"):
        stored_replay("orders", WINDOW, '{"start": 1, "end": 2}', new_replay("orders", WINDOW, {}, {}))


OFFSETS = st.fixed_dictionaries({"t": st.dictionaries(st.integers(0, 3), st.integers(0, 20))})


@given(OFFSETS, OFFSETS, OFFSETS, OFFSETS)
def test_replay_id_is_unique_per_rows(
    start: dict[str, dict[int, int]],
    end: dict[str, dict[int, int]],
    other_start: dict[str, dict[int, int]],
    other_end: dict[str, dict[int, int]],
) -> None:
    same = (start, end) == (other_start, other_end)
    ids = replay_id("p", WINDOW, start, end), replay_id("p", WINDOW, other_start, other_end)
    assert (ids[0] == ids[1]) == same


def test_replay_into_complete_mode_is_rejected() -> None:
    check_sink(spec_of())
    with pytest.raises(CommandFailed, match="mode complete"):
        check_sink(spec_of(sink='type = "delta"\npath = "lake"\nmode = "complete"'))
