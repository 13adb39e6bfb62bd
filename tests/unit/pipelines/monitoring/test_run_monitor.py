"""What a supervisor makes of the words of its driver."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.pipelines.monitoring.display import JsonDisplay, LineDisplay
from odradek.pipelines.monitoring.progress import Offsets
from odradek.pipelines.monitoring.run_monitor import AGE_EVERY_MS, STATUS, RunMonitor, summary
from odradek.pipelines.monitoring.run_status import RunState, RunStatus, RunTotals, from_json, to_json

RECORDED = json.loads((Path(__file__).parent / "recorded_progress.json").read_text(encoding="utf-8"))


class HandClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def sleep_ms(self, duration_ms: int) -> Any:
        raise NotImplementedError


class Files:
    """Keeps what is pinned; may be out of room."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.is_full = False

    def write_sidecar(self, name: str, text: str) -> None:
        if self.is_full:
            raise OSError(28, "No space left on device")
        self.texts[name] = text

    @property
    def standing(self) -> RunStatus:
        return from_json(json.loads(self.texts[STATUS]))


class Stage:
    """A listener and all it tells to."""

    def __init__(
        self, as_json: bool = False, oldest: Callable[[Offsets, Offsets], int | None] | None = None
    ) -> None:
        self.clock, self.out, self.files = HandClock(), io.StringIO(), Files()
        standing = RunStatus("orders", 7, "castle", self.clock.now_ms, self.clock.now_ms)
        display = JsonDisplay(self.out) if as_json else LineDisplay(self.out)
        self.listener = RunMonitor(standing, self.clock, display, record=self.files, oldest_waiting=oldest)

    def hear(self, **event: Any) -> str | None:
        return self.listener.hear(json.dumps(event))

    @property
    def lines(self) -> list[str]:
        return self.out.getvalue().splitlines()


def batch(rows: int = 10, end: int = 5, latest: int = 5) -> dict[str, Any]:
    source = {"endOffset": {"t": {"0": end}}, "latestOffset": {"t": {"0": latest}}}
    return {**RECORDED[0], "numInputRows": rows, "sources": [source], "observedMetrics": {}}


def test_a_run_is_followed_from_start_to_end() -> None:
    stage = Stage()
    stage.listener.driver_started(99)
    assert stage.files.standing.state is RunState.STARTING
    assert stage.files.standing.driver_pid == 99
    assert stage.hear(event="started", query_id="q", run_id="r") == "started"
    assert stage.files.standing.state is RunState.RUNNING
    stage.hear(event="progress", progress=batch(rows=10))
    stage.hear(event="progress", progress=batch(rows=5))
    stage.clock.now_ms += 2500
    stage.listener.close(RunState.DONE)
    standing = stage.files.standing
    assert (standing.state, standing.row_count, standing.batch_count) == (RunState.DONE, 15, 2)
    assert standing.last is not None
    assert standing.driver_pid is None
    assert stage.lines[-1] == "orders done · 2 batches · 15 rows · 2.50 s"


def test_one_is_not_many() -> None:
    stage = Stage()
    stage.hear(event="progress", progress=batch(rows=1))
    stage.listener.close(RunState.DONE)
    assert stage.lines[-1] == "orders done · 1 batch · 1 row · 0 s"


def test_a_run_counts_on_from_those_before() -> None:
    first = replace(RunStatus("orders", 7, "castle", 0, 0), batch_count=3, row_count=30, dead_letter_count=1)
    second = replace(first.next_run(8, "castle", 5_000, once=True), batch_count=1, row_count=5)
    assert (second.pid, second.started_ms, second.once, second.batch_count) == (8, 5_000, True, 1)
    assert second.earlier == RunTotals(1, 3, 30, 1, 0)
    third = second.next_run(9, "inn", 6_000, once=False)
    assert third.totals == RunTotals(3, 4, 35, 1, 0)
    assert from_json(json.loads(json.dumps(to_json(third)))) == third


def test_people_hear_at_once_that_spark_starts_and_then_that_it_runs() -> None:
    stage = Stage()
    stage.listener.driver_started(99)
    assert stage.lines == ["starting Spark …"]
    stage.clock.now_ms += 6200
    stage.hear(event="started", query_id="q", run_id="r")
    assert stage.lines[1:] == ["Spark is ready after 6.20 s; orders is running"]
    stage.hear(event="idle")
    stage.hear(event="idle")
    assert stage.lines[2:] == ["all records are read; waiting for new ones"]
    stage.hear(event="progress", progress=batch())
    stage.hear(event="idle")
    assert len(stage.lines) == 4, "said once a driver"


def test_batches_without_rows_are_no_news_for_people() -> None:
    stage = Stage()
    stage.hear(event="progress", progress=batch(rows=0))
    assert stage.lines == []
    assert stage.files.standing.batch_count == 1


def test_programs_get_one_object_a_line() -> None:
    stage = Stage(as_json=True)
    stage.hear(event="started", query_id="q", run_id="r")
    stage.hear(event="progress", progress=batch(rows=3, end=5, latest=9))
    stage.hear(event="failed", message="no")
    stage.listener.driver_ended(1, 2.0)
    stage.listener.close(RunState.FAILED)
    told = [json.loads(line) for line in stage.lines]
    assert [one["event"] for one in told] == ["started", "progress", "failed", "driver_ended", "over"]
    assert (told[1]["row_count"], told[1]["lag_rows"]) == (3, 4)
    assert (told[3]["retry_in_s"], told[4]["restart_count"]) == (2.0, 1)


def test_a_failure_and_the_restart_after_it_are_kept() -> None:
    stage = Stage()
    stage.hear(event="progress", progress=batch())
    stage.hear(event="failed", message="the topic is gone", retry=True)
    stage.listener.driver_ended(1, 4.0)
    standing = stage.files.standing
    assert (standing.state, standing.restart_count) == (RunState.WAITING, 1)
    assert stage.listener.last_failure == "the topic is gone"
    assert stage.lines[-2:] == ["the topic is gone", "the driver ended with 1; started again in 4.00 s"]
    assert stage.listener.batches_since_start == 1
    stage.listener.driver_started(100)
    assert stage.listener.batches_since_start == 0


def test_an_idle_source_has_been_read_to_its_end() -> None:
    stage = Stage(oldest=lambda end, latest: 0)
    stage.hear(event="progress", progress=batch(end=5, latest=9))
    assert stage.listener.standing.last is not None
    assert stage.listener.standing.last.lag_rows == 4
    stage.hear(event="idle")
    assert (stage.listener.standing.last.lag_rows, stage.listener.standing.last.lag_s) == (0, 0.0)


def test_lag_in_seconds_is_the_age_of_the_oldest_record_that_waits() -> None:
    stage = Stage(oldest=lambda end, latest: 990_000)
    stage.hear(event="progress", progress=batch(end=5, latest=9))
    assert stage.lines[-1].endswith("lag 4 rows, 10.0 s")


def test_where_nothing_waits_no_record_is_read() -> None:
    asked: list[Offsets] = []
    stage = Stage(oldest=lambda end, latest: asked.append(end))
    stage.hear(event="progress", progress=batch(end=5, latest=5))
    assert asked == []
    assert stage.lines[-1].endswith("lag 0 rows, 0 s")


def test_the_oldest_record_is_read_only_every_few_seconds() -> None:
    asked: list[Offsets] = []

    def oldest(end: Offsets, latest: Offsets) -> int:
        asked.append(end)
        return 999_000

    stage = Stage(oldest=oldest)
    for _ in range(3):
        stage.hear(event="progress", progress=batch(end=5, latest=9))
        stage.clock.now_ms += AGE_EVERY_MS // 3
    assert len(asked) == 1
    stage.clock.now_ms += AGE_EVERY_MS
    stage.hear(event="progress", progress=batch(end=5, latest=9))
    assert len(asked) == 2


def test_a_full_disk_is_told_once_and_does_not_end_the_run() -> None:
    stage = Stage()
    stage.files.is_full = True
    for _ in range(3):
        stage.hear(event="progress", progress=batch())
    assert sum("No space left" in line for line in stage.lines) == 1
    assert stage.listener.standing.batch_count == 3


@pytest.mark.parametrize(
    "line",
    [
        *("what?", "[]", "3", "null", "{}", '{"event": "no such"}', '{"event": ["a"]}'),
        *('{"event": "progress"}', '{"event": "progress", "progress": 3}'),
        *('{"event": "replayed"}', '{"event": "failed"}'),
    ],
)
def test_a_line_that_makes_no_sense_is_told_as_it_is(line: str) -> None:
    stage = Stage()
    assert stage.listener.hear(line + "\n") is None
    assert stage.lines == [f"driver: {line}"]


@given(st.text())
def test_no_line_of_a_driver_ends_its_supervisor(line: str) -> None:
    assert Stage().listener.hear(line) is None


def test_rows_of_a_replay_are_counted() -> None:
    stage = Stage()
    stage.hear(event="replayed", rows=12, skipped=False)
    assert stage.listener.rows_replayed == 12
    stage.listener.close(RunState.DONE)
    assert stage.lines == ["orders done · 12 rows replayed · 0 s"]


def test_the_summary_tells_what_went_wrong() -> None:
    standing = RunStatus(
        "orders", 1, "castle", 0, 61_000, restart_count=2, dead_letter_count=3, late_dropped_count=4
    )
    told = summary(standing.over(RunState.STOPPED, 61_000))
    expected = (
        "orders stopped · 0 batches · 0 rows · 61.0 s · 2 restarts · 3 dead letters · "
        "at least 4 late rows dropped"
    )
    assert told == expected
