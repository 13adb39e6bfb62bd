"""Reading of checkpoints, and the plan guard of unfinished batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.pipelines.checkpoint.checkpoint import (
    Checkpoint,
    CheckpointState,
    CheckpointUnreadable,
    PlannedBatch,
    newest_number,
    parse_planned,
    parse_query_id,
)
from odradek.pipelines.checkpoint.plan_guard import PlanChanged, check_plan, plan_settings
from odradek.pipelines.spec.reader import Spec, parse_spec

OFFSETS = (
    'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1700,"conf":{"spark.sql.shuffle.partitions":"4"}}\n'
    '{"orders":{"0":12}}\n-'
)
FILE = """
[pipeline]
name = "orders"
[source]
brokers = "b:1"
topics = ["orders"]
[sink]
type = "topic"
topic = "out"
"""


def spec_of(text: str = FILE) -> Spec:
    return parse_spec(text, Path("/pipelines/orders.toml"), {})


def test_offset_log_entry_is_parsed() -> None:
    assert parse_planned(7, OFFSETS) == PlannedBatch(
        7, 1700, ({"orders": {"0": 12}}, None), {"spark.sql.shuffle.partitions": "4"}
    )


@pytest.mark.parametrize("text", ["", "v1", "v1\nnothing\n{}", "v1\n[]\n"])
def test_invalid_offset_log_is_rejected(text: str) -> None:
    with pytest.raises(CheckpointUnreadable, match="offsets/7"):
        parse_planned(7, text)


def test_metadata_without_query_id_is_rejected() -> None:
    assert parse_query_id('{"id":"abc"}') == "abc"
    with pytest.raises(CheckpointUnreadable, match="metadata"):
        parse_query_id("{}")


def test_temporary_files_are_not_batches() -> None:
    assert newest_number(["9", "10", ".11.crc", ".12.aa.tmp", "x"]) == 10
    assert newest_number([]) is None


def batch(batch_id: int) -> PlannedBatch:
    return PlannedBatch(batch_id, 0, (), {})


@pytest.mark.parametrize(
    ("planned", "committed", "unfinished"), [(None, None, None), (3, 3, None), (3, 2, 3), (0, None, 0)]
)
def test_batch_is_unfinished_until_its_commit(
    planned: int | None, committed: int | None, unfinished: int | None
) -> None:
    state = CheckpointState("q", None if planned is None else batch(planned), None, committed)
    planned_batch = state.unfinished
    assert (None if planned_batch is None else planned_batch.batch_id) == unfinished


def test_checkpoint_state_and_sidecar_files(tmp_path: Path) -> None:
    location = tmp_path / "checkpoint"
    checkpoint = Checkpoint(str(location))
    assert not checkpoint.exists()
    assert checkpoint.state() == CheckpointState()
    for folder in ("offsets", "commits"):
        (location / folder).mkdir(parents=True)
    (location / "metadata").write_text('{"id":"abc"}')
    (location / "offsets" / "0").write_text(OFFSETS)
    (location / "offsets" / "1").write_text(OFFSETS.replace("12", "15"))
    (location / "commits" / "0").write_text("v1\n{}")
    state = checkpoint.state()
    assert state.query_id == "abc"
    assert state.last_committed is not None
    assert state.last_committed.ends[0] == {"orders": {"0": 12}}
    assert state.unfinished is not None
    assert state.unfinished.ends[0] == {"orders": {"0": 15}}
    assert checkpoint.read_sidecar("a/b.json") is None
    checkpoint.write_sidecar("a/b.json", "one")
    checkpoint.write_sidecar("a/b.json", "two")
    assert checkpoint.read_sidecar("a/b.json") == "two"
    assert [file.name for file in (location / "odradek" / "a").iterdir()] == ["b.json"]
    moved = checkpoint.move_aside("before")
    assert not checkpoint.exists()
    assert Checkpoint(moved).state() == state


def test_plan_settings_must_not_change_while_a_batch_is_unfinished() -> None:
    stored = plan_settings(spec_of())
    changed = spec_of(FILE.replace('["orders"]', '["orders"]\noptions = {minpartitions = 8}'))
    between = CheckpointState("q", batch(3), batch(3), 3)
    unfinished = CheckpointState("q", batch(4), batch(3), 3)
    check_plan(changed, stored, between)
    check_plan(changed, None, unfinished)
    check_plan(spec_of(), stored, unfinished)
    with pytest.raises(PlanChanged, match=r"batch 4 .* minPartitions was not set and is now 8\. Undo"):
        check_plan(changed, stored, unfinished)


def test_at_least_once_sink_allows_plan_changes() -> None:
    unfinished = CheckpointState("q", batch(4), batch(3), 3)
    text = FILE + 'guarantee = "at_least_once"\n'
    stored = plan_settings(spec_of(text))
    changed = text.replace('["orders"]', '["orders"]\noptions = {minPartitions = 8}')
    check_plan(spec_of(changed), stored, unfinished)


@pytest.mark.parametrize(
    ("text", "problem"), [("{", "is not valid JSON"), ("[1]", "is not a JSON object"), ("", "not valid JSON")]
)
def test_damaged_sidecar_file_is_reported_with_advice(tmp_path: Path, text: str, problem: str) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    assert checkpoint.read_sidecar_json("plan.json") is None
    checkpoint.write_sidecar("plan.json", text)
    with pytest.raises(
        CheckpointUnreadable, match=f"{tmp_path}/odradek/plan.json .*{problem}.*pipeline reset"
    ):
        checkpoint.read_sidecar_json("plan.json")


def test_damaged_spark_file_is_reported_with_advice(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "3").write_bytes(b"\x00\xff")
    with pytest.raises(
        CheckpointUnreadable, match=f"{tmp_path}/offsets/3 is not a valid offset log.*pipeline reset"
    ):
        Checkpoint(str(tmp_path)).state()
