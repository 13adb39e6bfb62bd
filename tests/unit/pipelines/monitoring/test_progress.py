"""Spark's reports of micro-batches, read and told. Two of them were recorded from an aggregation with a
watermark over 50 rows a second, of which every tenth is an hour late."""

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


def test_a_recorded_report_is_read() -> None:
    read = read_progress(LATE)
    assert (read.batch_id, read.row_count, read.state_row_count) == (3, 100, 4)
    assert read.batch_ms == LATE["batchDuration"] == read.parts_ms["triggerExecution"]
    assert read.watermark == "2026-11-15T17:18:11.983Z"
    assert read.query_id == LATE["id"]
    assert read.run_id == LATE["runId"]


def test_late_rows_of_a_group_count_once_in_a_batch() -> None:
    """Ten of the 100 rows were late; Spark counts the two groups it made of them."""
    assert read_progress(LATE).late_dropped_count == 2


def test_the_first_batch_has_no_watermark_and_sums_of_nothing() -> None:
    assert EMPTY["observedMetrics"]["odradek"]["dead_letters"] is None
    read = read_progress(EMPTY)
    assert (read.watermark, read.dead_letter_count, read.rows_per_s) == (None, 0, 0.0)


def test_dead_letters_are_those_observed() -> None:
    assert read_progress(report(observedMetrics={"odradek": {"dead_letters": 7}})).dead_letter_count == 7


def test_rows_that_were_observed_go_before_those_that_spark_read_twice() -> None:
    twice = report(numInputRows=14, observedMetrics={"odradek": {"rows": 7, "dead_letters": 0}})
    assert read_progress(twice).row_count == 7


def test_lag_is_what_is_left_in_all_partitions() -> None:
    read = read_progress(of_topic({"0": 5, "1": 9}, {"0": 7, "1": 9, "2": 4}))
    assert read.lag_rows == 2 + 0 + 4
    assert read.end == {"t": {0: 5, 1: 9}}


def test_a_source_that_is_no_topic_has_no_lag() -> None:
    table = {"startOffset": None, "endOffset": {"files": 1, "snapshot": True, "version": 3}}
    read = read_progress(report(sources=[{**table, "latestOffset": {"files": 2, "version": 3}}]))
    assert (read.end, read.latest, read.lag_rows) == (None, None, None)
    assert read_progress(LATE).lag_rows is None


def test_of_two_sources_of_one_partition_the_one_behind_counts() -> None:
    def source(end: int) -> dict[str, Any]:
        return {"endOffset": {"t": {"0": end}}, "latestOffset": {"t": {"0": 10}}}

    assert read_progress(report(sources=[source(4), source(9)])).lag_rows == 6


def test_a_batch_is_told_in_one_line() -> None:
    read = read_progress(of_topic({"0": 5}, {"0": 5}, batchId=42, numInputRows=120_000, batchDuration=387))
    told = line_of(read.waiting_longest(0.2))
    assert told == "batch 42 · 120,000 rows · 310,078 rows/s · 0.39 s · lag 0 rows, 0.20 s"


def test_the_line_adds_only_what_is_unusual() -> None:
    assert line_of(read_progress(LATE)).endswith("· at least 2 late rows dropped · 4 rows of state")
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
def test_times_are_told_with_the_digits_that_matter(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


@given(OFFSETS)
def test_offsets_survive_their_way_through_json(offsets: dict[str, dict[int, int]]) -> None:
    assert read_offsets(json.loads(json.dumps(offsets))) == offsets


@given(OFFSETS, OFFSETS)
def test_lag_is_never_negative_and_nothing_where_all_is_done(
    end: dict[str, dict[int, int]], latest: dict[str, dict[int, int]]
) -> None:
    assert all(rows >= 0 for rows in lag_by_partition(end, latest).values())
    assert set(lag_by_partition(latest, latest).values()) <= {0}


@pytest.mark.parametrize(
    "value", [None, 9, "x", {"files": 1}, {"t": {"0": "x"}}, {"t": {"x": 1}}, {"t": [1]}]
)
def test_what_is_not_offsets_is_none(value: object) -> None:
    assert read_offsets(value) is None


@pytest.mark.parametrize("recorded", [EMPTY, LATE, of_topic({"0": 5}, {"0": 7})])
def test_progress_survives_its_way_through_json(recorded: dict[str, Any]) -> None:
    read = read_progress(recorded).waiting_longest(1.5)
    assert from_json({**json.loads(json.dumps(to_json(read))), "of_a_later_release": 1}) == read
