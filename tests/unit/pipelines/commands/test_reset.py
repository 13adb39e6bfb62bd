"""Where a pipeline begins again: goals read, offsets chosen, consequences told."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.pipelines.pipeline_spec import spec_of

from odradek.cli.groups.reset_plan import InvalidResetTarget, OffsetBounds, OffsetChange
from odradek.model.ids import TopicPartition
from odradek.pipelines.checkpoint.checkpoint import CheckpointState, PlannedBatch
from odradek.pipelines.commands.reset import (
    Goal,
    consequence,
    done_offsets,
    read_goal,
    rows_again,
    rows_skipped,
    start_text,
    wanted_offsets,
)

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
BOUNDS = {A: OffsetBounds(2, 10), B: OffsetBounds(0, 5)}


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("earliest", Goal(word="earliest")),
        ("latest", Goal(word="latest")),
        ("1970-01-01T00:00:05", Goal(at_ms=5_000)),
        ("1970-01-01T01:00:05+01:00", Goal(at_ms=5_000)),
        ('{"t": {"0": 7, "1": -2}}', Goal(offsets={"t": {0: 7, 1: -2}})),
    ],
)
def test_goals_are_read(text: str, goal: Goal) -> None:
    assert read_goal(text) == goal


@pytest.mark.parametrize("text", ["", "now", "{", '{"t": 5}', '{"t": {"0": -3}}', '{"t": {"x": 1}}', "17:30"])
def test_a_goal_that_cannot_be_read_is_told_with_how_to_write_it(text: str) -> None:
    with pytest.raises(InvalidResetTarget, match=r"earliest|\{\"topic\"|no JSON"):
        read_goal(text)


def test_words_mean_the_ends_of_the_logs() -> None:
    assert wanted_offsets(Goal(word="earliest"), BOUNDS, {}, {}) == {A: 2, B: 0}
    assert wanted_offsets(Goal(word="latest"), BOUNDS, {}, {}) == {A: 10, B: 5}


def test_a_time_means_the_offsets_found_for_it() -> None:
    assert wanted_offsets(Goal(at_ms=5), BOUNDS, {}, {A: 4, B: 5}) == {A: 4, B: 5}


def test_offsets_move_only_what_they_name() -> None:
    goal = Goal(offsets={"t": {0: 7}})
    assert wanted_offsets(goal, BOUNDS, {A: 3, B: 4}, {}) == {A: 7, B: 4}
    assert wanted_offsets(goal, BOUNDS, {}, {}) == {A: 7, B: 0}


def test_offsets_below_zero_mean_the_ends() -> None:
    assert wanted_offsets(Goal(offsets={"t": {0: -2, 1: -1}}), BOUNDS, {}, {}) == {A: 2, B: 5}


def test_a_partition_the_pipeline_does_not_read_is_refused() -> None:
    with pytest.raises(InvalidResetTarget, match="does not read t-7"):
        wanted_offsets(Goal(offsets={"t": {7: 1}}), BOUNDS, {}, {})


def test_the_checkpoint_knows_before_the_group_what_is_done() -> None:
    state = CheckpointState("q", last_committed=PlannedBatch(3, None, ({"t": {"0": 9}},), {}), committed_id=3)
    assert done_offsets(state, {A: 4}) == {A: 9}
    assert done_offsets(CheckpointState(), {A: 4}) == {A: 4}


def test_the_start_is_offsets_as_spark_writes_them() -> None:
    assert start_text([OffsetChange(B, 1, 4), OffsetChange(A, -1, 2)]) == '{"t": {"0": 2, "1": 4}}'


MOVES = st.lists(
    st.builds(OffsetChange, st.sampled_from([A, B]), st.integers(-1, 100), st.integers(0, 100)), max_size=4
)


@given(MOVES)
def test_rows_are_read_again_or_skipped_by_how_far_each_partition_moves(moves: list[OffsetChange]) -> None:
    known = [move for move in moves if move.before >= 0]
    assert rows_again(moves) - rows_skipped(moves) == sum(move.before - move.after for move in known)
    assert rows_again(moves) >= 0
    assert rows_skipped(moves) >= 0


def test_who_goes_back_is_told_that_the_sink_gets_rows_again() -> None:
    spec = spec_of(sink='type = "delta"\npath = "lake"')
    told = consequence(spec, [OffsetChange(A, 9, 2)])
    assert told is not None
    assert "/pipelines/lake will get up to 7 rows again: they will be there twice" in told


def test_an_upsert_replaces_what_comes_again() -> None:
    spec = spec_of(sink='type = "delta"\npath = "lake"\nmode = "update"\nkeys = ["id"]')
    told = consequence(spec, [OffsetChange(A, 9, 2)])
    assert told is not None
    assert "rows with the same keys are replaced" in told


def test_who_goes_ahead_is_told_what_is_never_read() -> None:
    assert consequence(spec_of(), [OffsetChange(A, 2, 9)]) == "up to 7 rows will never be read"
    assert consequence(spec_of(), [OffsetChange(A, 2, 2)]) is None


@given(MOVES)
def test_the_start_names_every_partition_that_moves(moves: list[OffsetChange]) -> None:
    start = json.loads(start_text(moves))
    assert {(t, int(n)) for t, of in start.items() for n in of} == {tuple(move.partition) for move in moves}
