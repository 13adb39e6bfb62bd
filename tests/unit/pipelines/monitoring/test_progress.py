"""Parsing and formatting of Spark's progress reports.

Two reports were recorded from an aggregation with a watermark over 50 rows per second, of which every tenth
is an hour late.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.pipelines.monitoring.progress import (
    from_json,
    lag_by_partition,
    line_of,
    read_offsets,
    read_progress,
    seconds_text,
    to_json,
)

EMPTY, LATE = json.loads((Path(__file__).parent / "recorded_progress.json").read_text(encoding="utf-8"))
OFFSETS = st.dictionaries(
    st.text(min_size=1, max_size=5),
    st.dictionaries(st.integers(0, 3), st.integers(0, 10**12), min_size=1, max_size=3),
    max_size=3,
)


def report(**changes: Any) -> dict[str, Any]:
    return {**EMPTY, "stateOperators": [], "observedMetrics": {}, **changes}


def of_topic(end: dict[str, int], latest: dict[str, int], **changes: Any) -> dict[str, Any]:
    source = {"startOffset": {"t": {"0": 0}}, "endOffset": {"t": end}, "latestOffset": {"t": latest}}
    return report(sources=[source], **changes)


def test_recorded_report_is_parsed() -> None:
    progress = read_progress(LATE)
    assert (progress.batch_id, progress.row_count, progress.state_row_count) == (3, 100, 4)
    assert progress.batch_ms == LATE["batchDuration"] == progress.parts_ms["triggerExecution"]
    assert progress.watermark == "2026-11-15T17:18:11.983Z"
    assert progress.query_id == LATE["id"]
    assert progress.run_id == LATE["runId"]


def test_late_rows_of_a_group_count_once_in_a_batch() -> None:
    """Ten of the 100 rows were late; Spark counts the two groups it made of them."""
    assert read_progress(LATE).late_dropped_count == 2


def test_first_batch_has_no_watermark_and_zero_counts() -> None:
    assert EMPTY["observedMetrics"]["odradek"]["dead_letters"] is None
    progress = read_progress(EMPTY)
    assert (progress.watermark, progress.dead_letter_count, progress.rows_per_s) == (None, 0, 0.0)


def test_dead_letters_come_from_observed_metrics() -> None:
    assert read_progress(report(observedMetrics={"odradek": {"dead_letters": 7}})).dead_letter_count == 7


def test_observed_rows_take_precedence_over_input_rows() -> None:
    twice = report(numInputRows=14, observedMetrics={"odradek": {"rows": 7, "dead_letters": 0}})
    assert read_progress(twice).row_count == 7


def test_lag_sums_all_partitions() -> None:
    progress = read_progress(of_topic({"0": 5, "1": 9}, {"0": 7, "1": 9, "2": 4}))
    assert progress.lag_rows == 2 + 0 + 4
    assert progress.end == {"t": {0: 5, 1: 9}}


def test_table_source_has_no_lag() -> None:
    table = {"startOffset": None, "endOffset": {"files": 1, "snapshot": True, "version": 3}}
    progress = read_progress(report(sources=[{**table, "latestOffset": {"files": 2, "version": 3}}]))
    assert (progress.end, progress.latest, progress.lag_rows) == (None, None, None)
    assert read_progress(LATE).lag_rows is None


def test_lag_of_two_sources_of_a_partition_is_the_larger_one() -> None:
    def source(end: int) -> dict[str, Any]:
        return {"endOffset": {"t": {"0": end}}, "latestOffset": {"t": {"0": 10}}}

    assert read_progress(report(sources=[source(4), source(9)])).lag_rows == 6


def test_progress_line() -> None:
    progress = read_progress(
        of_topic({"0": 5}, {"0": 5}, batchId=42, numInputRows=120_000, batchDuration=387)
    )
    line = line_of(progress.with_lag_seconds(0.2))
    assert line == "batch 42 · 120,000 rows · 310,078 rows/s · 0.39 s · lag 0 rows, 0.20 s"


def test_progress_line_adds_exceptional_counts() -> None:
    assert line_of(read_progress(LATE)).endswith("· at least 2 late rows dropped · 4 state rows")
    unusual = read_progress(report(observedMetrics={"odradek": {"dead_letters": 1234}}))
    assert line_of(unusual).endswith("· 1,234 dead letters")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.004, "0 s"),
        (0.387, "0.39 s"),
        (9.99, "9.99 s"),
        (9.996, "10.0 s"),
        (119.9, "119.9 s"),
        (119.96, "2 min 0 s"),
        (200, "3 min 20 s"),
        (7500, "2 h 5 min"),
        (273_600, "3 d 4 h"),
    ],
)
def test_format_of_seconds(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


@given(OFFSETS)
def test_offsets_round_trip_as_json(offsets: dict[str, dict[int, int]]) -> None:
    assert read_offsets(json.loads(json.dumps(offsets))) == offsets


@given(OFFSETS, OFFSETS)
def test_lag_is_never_negative_and_zero_at_the_end(
    end: dict[str, dict[int, int]], latest: dict[str, dict[int, int]]
) -> None:
    assert all(rows >= 0 for rows in lag_by_partition(end, latest).values())
    assert set(lag_by_partition(latest, latest).values()) <= {0}


@pytest.mark.parametrize(
    "value", [None, 9, "x", {"files": 1}, {"t": {"0": "x"}}, {"t": {"x": 1}}, {"t": [1]}]
)
def test_other_values_are_not_offsets(value: object) -> None:
    assert read_offsets(value) is None


@pytest.mark.parametrize("recorded", [EMPTY, LATE, of_topic({"0": 5}, {"0": 7})])
def test_progress_round_trips_through_json(recorded: dict[str, Any]) -> None:
    progress = read_progress(recorded).with_lag_seconds(1.5)
    assert from_json({**json.loads(json.dumps(to_json(progress))), "of_a_later_release": 1}) == progress
