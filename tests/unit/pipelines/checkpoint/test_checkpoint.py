"""What is read from a checkpoint, and what may not change while a batch is unfinished."""

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
from odradek.pipelines.checkpoint.plan_guard import PlanChanged, check_plan, planning_of
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


def test_a_planned_batch_has_its_time_its_settings_and_an_end_for_each_source() -> None:
    assert parse_planned(7, OFFSETS) == PlannedBatch(
        7, 1700, ({"orders": {"0": 12}}, None), {"spark.sql.shuffle.partitions": "4"}
    )


@pytest.mark.parametrize("text", ["", "v1", "v1\nnothing\n{}", "v1\n[]\n"])
def test_a_file_that_is_no_log_is_named(text: str) -> None:
    with pytest.raises(CheckpointUnreadable, match="offsets/7"):
        parse_planned(7, text)


def test_a_metadata_file_without_a_query_is_named() -> None:
    assert parse_query_id('{"id":"abc"}') == "abc"
    with pytest.raises(CheckpointUnreadable, match="metadata"):
        parse_query_id("{}")


def test_only_whole_numbers_are_batches() -> None:
    assert newest_number(["9", "10", ".11.crc", ".12.aa.tmp", "x"]) == 10
    assert newest_number([]) is None


def batch(batch_id: int) -> PlannedBatch:
    return PlannedBatch(batch_id, 0, (), {})


@pytest.mark.parametrize(
    ("planned", "committed", "unfinished"), [(None, None, None), (3, 3, None), (3, 2, 3), (0, None, 0)]
)
def test_a_batch_is_unfinished_until_its_commit(
    planned: int | None, committed: int | None, unfinished: int | None
) -> None:
    state = CheckpointState("q", None if planned is None else batch(planned), None, committed)
    found = state.unfinished
    assert (None if found is None else found.batch_id) == unfinished


def test_a_checkpoint_is_read_as_spark_wrote_it_and_our_files_lie_beside(tmp_path: Path) -> None:
    place = tmp_path / "checkpoint"
    checkpoint = Checkpoint(str(place))
    assert not checkpoint.exists()
    assert checkpoint.state() == CheckpointState()
    for folder in ("offsets", "commits"):
        (place / folder).mkdir(parents=True)
    (place / "metadata").write_text('{"id":"abc"}')
    (place / "offsets" / "0").write_text(OFFSETS)
    (place / "offsets" / "1").write_text(OFFSETS.replace("12", "15"))
    (place / "commits" / "0").write_text("v1\n{}")
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
    assert [file.name for file in (place / "odradek" / "a").iterdir()] == ["b.json"]
    checkpoint.remove_sidecar("a/b.json")
    assert checkpoint.read_sidecar("a/b.json") is None
    moved = checkpoint.move_aside("before")
    assert not checkpoint.exists()
    assert Checkpoint(moved).state() == state


def test_what_cuts_a_batch_may_change_only_when_no_batch_is_unfinished() -> None:
    pinned = planning_of(spec_of())
    changed = spec_of(FILE.replace('["orders"]', '["orders"]\noptions = {minpartitions = 8}'))
    between = CheckpointState("q", batch(3), batch(3), 3)
    unfinished = CheckpointState("q", batch(4), batch(3), 3)
    check_plan(changed, pinned, between)
    check_plan(changed, None, unfinished)
    check_plan(spec_of(), pinned, unfinished)
    with pytest.raises(PlanChanged, match=r"batch 4 .* minPartitions was not set and is 8 now\. Put"):
        check_plan(changed, pinned, unfinished)


def test_a_sink_that_may_write_twice_has_nothing_to_keep() -> None:
    unfinished = CheckpointState("q", batch(4), batch(3), 3)
    text = FILE + 'guarantee = "at_least_once"\n'
    pinned = planning_of(spec_of(text))
    changed = text.replace('["orders"]', '["orders"]\noptions = {minPartitions = 8}')
    check_plan(spec_of(changed), pinned, unfinished)


@pytest.mark.parametrize(
    ("text", "why"), [("{", "is no JSON"), ("[1]", "holds no JSON object"), ("", "no JSON")]
)
def test_a_damaged_file_of_ours_is_named_with_a_way_out(tmp_path: Path, text: str, why: str) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    assert checkpoint.read_sidecar_json("plan.json") is None
    checkpoint.write_sidecar("plan.json", text)
    with pytest.raises(CheckpointUnreadable, match=f"{tmp_path}/odradek/plan.json .*{why}.*pipeline reset"):
        checkpoint.read_sidecar_json("plan.json")


def test_a_damaged_file_of_sparks_is_named_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "3").write_bytes(b"\x00\xff")
    with pytest.raises(CheckpointUnreadable, match=f"{tmp_path}/offsets/3 is no log.*pipeline reset"):
        Checkpoint(str(tmp_path)).state()
