"""Reset of a pipeline: targets, offsets and warnings."""

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
    ResetTarget,
    parse_target,
    processed_offsets,
    reset_warning,
    rows_again,
    rows_skipped,
    start_offsets_json,
    target_offsets,
)

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
BOUNDS = {A: OffsetBounds(2, 10), B: OffsetBounds(0, 5)}


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("earliest", ResetTarget(bound="earliest")),
        ("latest", ResetTarget(bound="latest")),
        ("1970-01-01T00:00:05", ResetTarget(timestamp_ms=5_000)),
        ("1970-01-01T01:00:05+01:00", ResetTarget(timestamp_ms=5_000)),
        ('{"t": {"0": 7, "1": -2}}', ResetTarget(offsets={"t": {0: 7, 1: -2}})),
    ],
)
def test_reset_targets_are_parsed(text: str, target: ResetTarget) -> None:
    assert parse_target(text) == target


@pytest.mark.parametrize("text", ["", "now", "{", '{"t": 5}', '{"t": {"0": -3}}', '{"t": {"x": 1}}', "17:30"])
def test_invalid_reset_target_is_rejected(text: str) -> None:
    with pytest.raises(InvalidResetTarget, match=r"earliest|\{\"topic\"|must be JSON"):
        parse_target(text)


def test_earliest_and_latest_resolve_to_log_bounds() -> None:
    assert target_offsets(ResetTarget(bound="earliest"), BOUNDS, {}, {}) == {A: 2, B: 0}
    assert target_offsets(ResetTarget(bound="latest"), BOUNDS, {}, {}) == {A: 10, B: 5}


def test_timestamp_resolves_to_its_offsets() -> None:
    assert target_offsets(ResetTarget(timestamp_ms=5), BOUNDS, {}, {A: 4, B: 5}) == {A: 4, B: 5}


def test_offsets_move_listed_partitions_only() -> None:
    target = ResetTarget(offsets={"t": {0: 7}})
    assert target_offsets(target, BOUNDS, {A: 3, B: 4}, {}) == {A: 7, B: 4}
    assert target_offsets(target, BOUNDS, {}, {}) == {A: 7, B: 0}


def test_negative_offsets_resolve_to_log_bounds() -> None:
    assert target_offsets(ResetTarget(offsets={"t": {0: -2, 1: -1}}), BOUNDS, {}, {}) == {A: 2, B: 5}


def test_unknown_partition_is_rejected() -> None:
    with pytest.raises(InvalidResetTarget, match="does not read t-7"):
        target_offsets(ResetTarget(offsets={"t": {7: 1}}), BOUNDS, {}, {})


def test_checkpoint_offsets_take_precedence_over_group_offsets() -> None:
    state = CheckpointState("q", last_committed=PlannedBatch(3, None, ({"t": {"0": 9}},), {}), committed_id=3)
    assert processed_offsets(state, {A: 4}) == {A: 9}
    assert processed_offsets(CheckpointState(), {A: 4}) == {A: 4}


def test_start_offsets_json_is_sorted() -> None:
    assert start_offsets_json([OffsetChange(B, 1, 4), OffsetChange(A, -1, 2)]) == '{"t": {"0": 2, "1": 4}}'


CHANGES = st.lists(
    st.builds(OffsetChange, st.sampled_from([A, B]), st.integers(-1, 100), st.integers(0, 100)), max_size=4
)


@given(CHANGES)
def test_rows_again_and_skipped_by_partition(changes: list[OffsetChange]) -> None:
    known = [change for change in changes if change.before >= 0]
    assert rows_again(changes) - rows_skipped(changes) == sum(
        change.before - change.after for change in known
    )
    assert rows_again(changes) >= 0
    assert rows_skipped(changes) >= 0


def test_reset_backwards_warns_about_duplicates() -> None:
    spec = spec_of(sink='type = "delta"\npath = "lake"')
    warning = reset_warning(spec, [OffsetChange(A, 9, 2)])
    assert warning is not None
    assert "up to 7 rows will be written to /pipelines/lake again: they will be duplicates" in warning


def test_reset_with_upserts_warns_about_replaced_rows() -> None:
    spec = spec_of(sink='type = "delta"\npath = "lake"\nmode = "update"\nkeys = ["id"]')
    warning = reset_warning(spec, [OffsetChange(A, 9, 2)])
    assert warning is not None
    assert "rows with the same keys are replaced" in warning


def test_reset_forwards_warns_about_skipped_rows() -> None:
    assert reset_warning(spec_of(), [OffsetChange(A, 2, 9)]) == "up to 7 rows will not be read"
    assert reset_warning(spec_of(), [OffsetChange(A, 2, 2)]) is None


@given(CHANGES)
def test_start_offsets_contain_every_changed_partition(changes: list[OffsetChange]) -> None:
    start = json.loads(start_offsets_json(changes))
    assert {(topic, int(number)) for topic, partitions in start.items() for number in partitions} == {
        tuple(change.partition) for change in changes
    }
