"""Status of a pipeline, combined from its sources."""

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
from odradek.pipelines.monitoring.status import (
    UNKNOWN_HOLDER,
    Status,
    as_json,
    build_status,
    parse_run_status,
    status_lines,
)

RUN = RunStatus("orders", 7, "castle", 1_000, 2_000, state=RunState.RUNNING)
BATCH = Progress("q", "r", at_ms=60_000, batch_id=4, row_count=1200, batch_ms=500, lag_rows=0, lag_s=0.0)
NEVER = CheckpointState()
LAG = [PartitionLag("t", 0, 4, 10, 6, 2.5)]


def status_of(
    run: RunStatus | None = None,
    holder: str | None = None,
    state: CheckpointState = NEVER,
    lag: list[PartitionLag] | str = "",
) -> Status:
    text = None if run is None else json.dumps(to_json(run))
    return build_status(spec_of(), 65_000, holder, state, text, lag)


def batch(number: int) -> PlannedBatch:
    return PlannedBatch(number, None, (), {})


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (status_of(), "never run"),
        (status_of(state=CheckpointState("q", committed_id=3)), "not running"),
        (status_of(RUN, "castle"), "running"),
        (status_of(None, "castle"), "running"),
        (status_of(replace(RUN, state=RunState.STARTING), "castle"), "starting"),
        (status_of(replace(RUN, state=RunState.WAITING), "castle"), "waiting to start again"),
        # The status file of the previous run, right after the start of the next.
        (status_of(replace(RUN, state=RunState.DONE), "castle"), "running"),
        (status_of(replace(RUN, state=RunState.DONE)), "not running (done)"),
        (status_of(replace(RUN, state=RunState.FAILED)), "not running (failed)"),
        (status_of(RUN), "not running (the last run was killed)"),
        (status_of(RUN, UNKNOWN_HOLDER), "unknown: no broker reachable"),
    ],
)
def test_state_is_combined_from_lease_and_status_file(status: Status, state: str) -> None:
    assert status.state_text == state
    assert as_json(status)["state"] == state


def test_status_lines_show_last_batch_lag_and_failure() -> None:
    run = replace(RUN.progressed(BATCH, 61_000), failure=Failure(3_000, "disk full"), restart_count=2)
    lines = dict(status_lines(status_of(run, "castle", CheckpointState("q", committed_id=4), LAG)))
    assert lines["last batch"] == "4, 1970-01-01 00:01:00 UTC (5.00 s ago)"
    assert lines["rows"] == "1,200 rows, 2,400 rows/s, 0.50 s"
    assert lines["lag"] == "6 rows, 2.50 s"
    assert lines["restarts"] == "2"
    assert lines["last failure"] == "1970-01-01 00:00:03 UTC: disk full"
    assert lines["this run"] == "since 1970-01-01 00:00:01 UTC: 1 batch, 1,200 rows"
    assert "all runs" not in lines
    assert lines["run by"] == "castle"


def test_counts_of_earlier_runs_are_included() -> None:
    run = replace(RUN.progressed(BATCH, 61_000), earlier=RunTotals(2, 9, 800, 3, 0))
    status = status_of(run)
    assert dict(status_lines(status))["all runs"] == "3 runs, 10 batches, 2,000 rows, 3 dead letters"
    assert as_json(status)["all_runs"] == {
        "run_count": 3,
        "batch_count": 10,
        "row_count": 2000,
        "dead_letter_count": 3,
        "late_dropped_count": 0,
    }


def test_status_as_json() -> None:
    run = replace(RUN.progressed(BATCH, 61_000), failure=Failure(3_000, "disk full"))
    output = as_json(status_of(run, "castle", CheckpointState("q", committed_id=4), LAG))
    assert json.loads(json.dumps(output)) == output
    assert (output["running"], output["last_batch"], output["lag_rows"], output["lag_s"]) == (True, 4, 6, 2.5)
    assert output["last_failure"] == {"at_ms": 3_000, "message": "disk full"}
    assert output["progress"]["row_count"] == 1200


def test_unfinished_batch_is_shown_if_not_running() -> None:
    state = CheckpointState("q", batch(5), batch(4), 4)
    assert dict(status_lines(status_of(state=state)))["unfinished"] == "batch 5 is replayed first"
    assert "unfinished" not in dict(status_lines(status_of(holder="castle", state=state)))


def test_unreachable_brokers_hide_only_the_lag() -> None:
    lines = dict(status_lines(status_of(RUN, lag="no broker reachable")))
    assert lines["lag"] == "unknown: no broker reachable"
    assert lines["last run"] == "since 1970-01-01 00:00:01 UTC: 0 batches, 0 rows"


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"name": "x", "state": "no such"}'])
def test_invalid_status_file_is_ignored(text: str) -> None:
    assert parse_run_status(text) is None


def test_run_status_round_trips_through_json() -> None:
    run = replace(RUN.progressed(BATCH, 61_000), failure=Failure(3_000, "disk full"))
    assert from_json({**json.loads(json.dumps(to_json(run))), "of_a_later_release": 1}) == run
