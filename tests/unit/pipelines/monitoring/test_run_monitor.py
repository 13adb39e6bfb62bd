"""Processing of a driver's reports."""

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


class ManualClock:
    """Clock that is advanced by the test."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def monotonic_ns(self) -> int:
        return self.now_ms * 1_000_000

    def sleep_ms(self, duration_ms: int) -> Any:
        raise NotImplementedError


class Files:
    """In-memory sidecar files; may be full."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.is_full = False

    def write_sidecar(self, name: str, text: str) -> None:
        if self.is_full:
            raise OSError(28, "No space left on device")
        self.texts[name] = text

    @property
    def status(self) -> RunStatus:
        return from_json(json.loads(self.texts[STATUS]))


class Stage:
    """A monitor and its outputs."""

    def __init__(
        self, as_json: bool = False, oldest: Callable[[Offsets, Offsets], int | None] | None = None
    ) -> None:
        self.clock, self.out, self.files = ManualClock(), io.StringIO(), Files()
        status = RunStatus("orders", 7, "castle", self.clock.now_ms, self.clock.now_ms)
        display = JsonDisplay(self.out) if as_json else LineDisplay(self.out)
        self.monitor = RunMonitor(status, self.clock, display, store=self.files, oldest_unread=oldest)

    def report(self, **event: Any) -> str | None:
        return self.monitor.handle_line(json.dumps(event))

    @property
    def lines(self) -> list[str]:
        return self.out.getvalue().splitlines()


def batch(rows: int = 10, end: int = 5, latest: int = 5) -> dict[str, Any]:
    source = {"endOffset": {"t": {"0": end}}, "latestOffset": {"t": {"0": latest}}}
    return {**RECORDED[0], "numInputRows": rows, "sources": [source], "observedMetrics": {}}


def test_run_status_from_start_to_end() -> None:
    stage = Stage()
    stage.monitor.driver_started(99)
    assert stage.files.status.state is RunState.STARTING
    assert stage.files.status.driver_pid == 99
    assert stage.report(event="started", query_id="q", run_id="r") == "started"
    assert stage.files.status.state is RunState.RUNNING
    stage.report(event="progress", progress=batch(rows=10))
    stage.report(event="progress", progress=batch(rows=5))
    stage.clock.now_ms += 2500
    stage.monitor.close(RunState.DONE)
    status = stage.files.status
    assert (status.state, status.row_count, status.batch_count) == (RunState.DONE, 15, 2)
    assert status.last is not None
    assert status.driver_pid is None
    assert stage.lines[-1] == "orders done · 2 batches · 15 rows · 2.50 s"


def test_summary_uses_singular() -> None:
    stage = Stage()
    stage.report(event="progress", progress=batch(rows=1))
    stage.monitor.close(RunState.DONE)
    assert stage.lines[-1] == "orders done · 1 batch · 1 row · 0 s"


def test_totals_continue_from_earlier_runs() -> None:
    first = replace(RunStatus("orders", 7, "castle", 0, 0), batch_count=3, row_count=30, dead_letter_count=1)
    second = replace(first.next_run(8, "castle", 5_000, once=True), batch_count=1, row_count=5)
    assert (second.pid, second.started_ms, second.once, second.batch_count) == (8, 5_000, True, 1)
    assert second.earlier == RunTotals(1, 3, 30, 1, 0)
    third = second.next_run(9, "inn", 6_000, once=False)
    assert third.totals == RunTotals(3, 4, 35, 1, 0)
    assert from_json(json.loads(json.dumps(to_json(third)))) == third


def test_start_and_idle_messages() -> None:
    stage = Stage()
    stage.monitor.driver_started(99)
    assert stage.lines == ["starting Spark …"]
    stage.clock.now_ms += 6200
    stage.report(event="started", query_id="q", run_id="r")
    assert stage.lines[1:] == ["Spark is ready after 6.20 s; orders is running"]
    stage.report(event="idle")
    stage.report(event="idle")
    assert stage.lines[2:] == ["all records are read; waiting for new ones"]
    stage.report(event="progress", progress=batch())
    stage.report(event="idle")
    assert len(stage.lines) == 4, "shown once per driver"


def test_batches_without_rows_are_not_printed() -> None:
    stage = Stage()
    stage.report(event="progress", progress=batch(rows=0))
    assert stage.lines == []
    assert stage.files.status.batch_count == 1


def test_json_output_has_one_object_per_line() -> None:
    stage = Stage(as_json=True)
    stage.report(event="started", query_id="q", run_id="r")
    stage.report(event="progress", progress=batch(rows=3, end=5, latest=9))
    stage.report(event="failed", message="no")
    stage.monitor.driver_ended(1, 2.0)
    stage.monitor.close(RunState.FAILED)
    events = [json.loads(line) for line in stage.lines]
    assert [event["event"] for event in events] == ["started", "progress", "failed", "driver_ended", "over"]
    assert (events[1]["row_count"], events[1]["lag_rows"]) == (3, 4)
    assert (events[3]["retry_in_s"], events[4]["restart_count"]) == (2.0, 1)


def test_failure_and_restart_are_recorded() -> None:
    stage = Stage()
    stage.report(event="progress", progress=batch())
    stage.report(event="failed", message="the topic is gone", retry=True)
    stage.monitor.driver_ended(1, 4.0)
    status = stage.files.status
    assert (status.state, status.restart_count) == (RunState.WAITING, 1)
    assert stage.monitor.last_failure == "the topic is gone"
    assert stage.lines[-2:] == ["the topic is gone", "the driver exited with 1; restarting in 4.00 s"]
    assert stage.monitor.batches_since_start == 1
    stage.monitor.driver_started(100)
    assert stage.monitor.batches_since_start == 0


def test_idle_report_clears_the_lag() -> None:
    stage = Stage(oldest=lambda end, latest: 0)
    stage.report(event="progress", progress=batch(end=5, latest=9))
    assert stage.monitor.status.last is not None
    assert stage.monitor.status.last.lag_rows == 4
    stage.report(event="idle")
    assert (stage.monitor.status.last.lag_rows, stage.monitor.status.last.lag_s) == (0, 0.0)


def test_lag_seconds_is_the_age_of_the_oldest_unread_record() -> None:
    stage = Stage(oldest=lambda end, latest: 990_000)
    stage.report(event="progress", progress=batch(end=5, latest=9))
    assert stage.lines[-1].endswith("lag 4 rows, 10.0 s")


def test_no_record_is_read_without_lag() -> None:
    reads: list[Offsets] = []
    stage = Stage(oldest=lambda end, latest: reads.append(end))
    stage.report(event="progress", progress=batch(end=5, latest=5))
    assert reads == []
    assert stage.lines[-1].endswith("lag 0 rows, 0 s")


def test_oldest_record_is_read_at_limited_intervals() -> None:
    reads: list[Offsets] = []

    def oldest(end: Offsets, latest: Offsets) -> int:
        reads.append(end)
        return 999_000

    stage = Stage(oldest=oldest)
    for _ in range(3):
        stage.report(event="progress", progress=batch(end=5, latest=9))
        stage.clock.now_ms += AGE_EVERY_MS // 3
    assert len(reads) == 1
    stage.clock.now_ms += AGE_EVERY_MS
    stage.report(event="progress", progress=batch(end=5, latest=9))
    assert len(reads) == 2


def test_full_disk_is_reported_once_and_does_not_end_the_run() -> None:
    stage = Stage()
    stage.files.is_full = True
    for _ in range(3):
        stage.report(event="progress", progress=batch())
    assert sum("No space left" in line for line in stage.lines) == 1
    assert stage.monitor.status.batch_count == 3


@pytest.mark.parametrize(
    "line",
    [
        *("what?", "[]", "3", "null", "{}", '{"event": "no such"}', '{"event": ["a"]}'),
        *('{"event": "progress"}', '{"event": "progress", "progress": 3}'),
        *('{"event": "replayed"}', '{"event": "failed"}'),
    ],
)
def test_invalid_line_is_shown_unchanged(line: str) -> None:
    stage = Stage()
    assert stage.monitor.handle_line(line + "\n") is None
    assert stage.lines == [f"driver: {line}"]


@given(st.text())
def test_no_line_raises(line: str) -> None:
    assert Stage().monitor.handle_line(line) is None


def test_replayed_rows_are_counted() -> None:
    stage = Stage()
    stage.report(event="replayed", rows=12, skipped=False)
    assert stage.monitor.rows_replayed == 12
    stage.monitor.close(RunState.DONE)
    assert stage.lines == ["orders done · 12 rows replayed · 0 s"]


def test_summary_includes_restarts_and_dropped_rows() -> None:
    status = RunStatus(
        "orders", 1, "castle", 0, 61_000, restart_count=2, dead_letter_count=3, late_dropped_count=4
    )
    events = summary(status.over(RunState.STOPPED, 61_000))
    expected = (
        "orders stopped · 0 batches · 0 rows · 61.0 s · 2 restarts · 3 dead letters · "
        "at least 4 late rows dropped"
    )
    assert events == expected
