"""How a pipeline stands, from what its witnesses tell."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.unit.pipelines.pipeline_spec import spec_of

from odradek.pipelines.checkpoint.checkpoint import CheckpointState, PlannedBatch
from odradek.pipelines.monitoring.lag import PartitionLag
from odradek.pipelines.monitoring.progress import Progress
from odradek.pipelines.monitoring.run_status import (
    Failure,
    RunState,
    RunStatus,
    RunTotals,
    from_json,
    to_json,
)
from odradek.pipelines.monitoring.status import NOT_ASKED, Status, as_json, gather, lines_of, read_standing

RUN = RunStatus("orders", 7, "castle", 1_000, 2_000, state=RunState.RUNNING)
BATCH = Progress("q", "r", at_ms=60_000, batch_id=4, row_count=1200, batch_ms=500, lag_rows=0, lag_s=0.0)
NEVER = CheckpointState()
LAG = [PartitionLag("t", 0, 4, 10, 6, 2.5)]


def seen(
    standing: RunStatus | None = None,
    holder: str | None = None,
    state: CheckpointState = NEVER,
    lag: list[PartitionLag] | str = "",
) -> Status:
    text = None if standing is None else json.dumps(to_json(standing))
    return gather(spec_of(), 65_000, holder, state, text, lag)


def batch(number: int) -> PlannedBatch:
    return PlannedBatch(number, None, (), {})


@pytest.mark.parametrize(
    ("status", "word"),
    [
        (seen(), "never run"),
        (seen(state=CheckpointState("q", committed_id=3)), "not running"),
        (seen(RUN, "castle"), "running"),
        (seen(None, "castle"), "running"),
        (seen(replace(RUN, state=RunState.STARTING), "castle"), "starting"),
        (seen(replace(RUN, state=RunState.WAITING), "castle"), "waiting to start again"),
        # The file of the run before, seen in the first moment of the next.
        (seen(replace(RUN, state=RunState.DONE), "castle"), "running"),
        (seen(replace(RUN, state=RunState.DONE)), "not running (done)"),
        (seen(replace(RUN, state=RunState.FAILED)), "not running (failed)"),
        (seen(RUN), "not running (the last run was killed)"),
        (seen(RUN, NOT_ASKED), "not known: no broker answers"),
    ],
)
def test_the_lease_tells_whether_it_runs_and_the_file_what_it_does(status: Status, word: str) -> None:
    assert status.word == word
    assert as_json(status)["state"] == word


def test_people_see_the_last_batch_its_lag_and_the_last_failure() -> None:
    run = replace(RUN.progressed(BATCH, 61_000), failure=Failure(3_000, "disk full"), restart_count=2)
    lines = dict(lines_of(seen(run, "castle", CheckpointState("q", committed_id=4), LAG)))
    assert lines["last batch"] == "4, 1970-01-01 00:01:00 UTC (5.00 s ago)"
    assert lines["rows"] == "1,200 rows, 2,400 rows/s, 0.50 s"
    assert lines["lag"] == "6 rows, 2.50 s"
    assert lines["restarts"] == "2"
    assert lines["last failure"] == "1970-01-01 00:00:03 UTC: disk full"
    assert lines["this run"] == "since 1970-01-01 00:00:01 UTC: 1 batch, 1,200 rows"
    assert "all runs" not in lines
    assert lines["run by"] == "castle"


def test_earlier_runs_are_counted() -> None:
    run = replace(RUN.progressed(BATCH, 61_000), earlier=RunTotals(2, 9, 800, 3, 0))
    status = seen(run)
    assert dict(lines_of(status))["all runs"] == "3 runs, 10 batches, 2,000 rows, 3 dead letters"
    assert as_json(status)["all_runs"] == {
        "run_count": 3,
        "batch_count": 10,
        "row_count": 2000,
        "dead_letter_count": 3,
        "late_dropped_count": 0,
    }


def test_programs_see_the_same() -> None:
    run = replace(RUN.progressed(BATCH, 61_000), failure=Failure(3_000, "disk full"))
    told = as_json(seen(run, "castle", CheckpointState("q", committed_id=4), LAG))
    assert json.loads(json.dumps(told)) == told
    assert (told["running"], told["last_batch"], told["lag_rows"], told["lag_s"]) == (True, 4, 6, 2.5)
    assert told["last_failure"] == {"at_ms": 3_000, "message": "disk full"}
    assert told["progress"]["row_count"] == 1200


def test_a_batch_that_was_cut_short_is_told_when_nobody_runs_it() -> None:
    state = CheckpointState("q", batch(5), batch(4), 4)
    assert dict(lines_of(seen(state=state)))["unfinished"] == "batch 5 runs again first"
    assert "unfinished" not in dict(lines_of(seen(holder="castle", state=state)))


def test_brokers_that_are_away_cost_only_the_lag() -> None:
    lines = dict(lines_of(seen(RUN, lag="no broker answers")))
    assert lines["lag"] == "not known: no broker answers"
    assert lines["last run"] == "since 1970-01-01 00:00:01 UTC: 0 batches, 0 rows"


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"name": "x", "state": "no such"}'])
def test_a_status_file_that_cannot_be_read_is_as_good_as_none(text: str) -> None:
    assert read_standing(text) is None


def test_a_standing_survives_its_way_through_json() -> None:
    run = replace(RUN.progressed(BATCH, 61_000), failure=Failure(3_000, "disk full"))
    assert from_json({**json.loads(json.dumps(to_json(run))), "of_a_later_release": 1}) == run
