"""Parsing and planning for ``groups reset-offsets``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.cli.groups.reset_plan import (
    InvalidResetTarget,
    OffsetBounds,
    OffsetChange,
    parse_datetime_ms,
    parse_duration_ms,
    parse_offsets_file,
    parse_topics,
    plan_offset_changes,
    shift_offsets,
)
from odradek.model.ids import TopicPartition

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def test_out_of_range_offsets_are_moved_into_log() -> None:
    bounds = {A0: OffsetBounds(5, 10), A1: OffsetBounds(5, 10)}
    assert plan_offset_changes({A1: 99, A0: 1}, bounds, {A0: 7}) == [
        OffsetChange(A0, 7, 5),
        OffsetChange(A1, -1, 10),
    ]


@given(st.integers(), st.integers(0, 100), st.integers(0, 100))
def test_planned_offset_is_target_or_nearest(target: int, first: int, size: int) -> None:
    bounds = OffsetBounds(first, first + size)
    (change,) = plan_offset_changes({A0: target}, {A0: bounds}, {})
    assert bounds.first <= change.after <= bounds.end
    assert change.after == target or not bounds.first <= target <= bounds.end


def test_shift_offsets_requires_committed_offset() -> None:
    assert shift_offsets({A0: 7}, [A0], -3) == {A0: 4}
    with pytest.raises(InvalidResetTarget, match="requires a committed offset, got none for a-1"):
        shift_offsets({A0: 7}, [A0, A1], 1)


@pytest.mark.parametrize(
    ("text", "timestamp_ms"),
    [
        ("1970-01-01T00:00:01", 1000),
        ("1970-01-01T00:00:01.500", 1500),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-02", 86_400_000),
    ],
)
def test_parse_datetime_defaults_to_utc(text: str, timestamp_ms: int) -> None:
    assert parse_datetime_ms(text) == timestamp_ms


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("P1D", 86_400_000),
        ("PT1H30M", 5_400_000),
        ("PT0.5S", 500),
        ("P1W", 604_800_000),
        ("P1DT1S", 86_401_000),
    ],
)
def test_parse_duration(text: str, duration: int) -> None:
    assert parse_duration_ms(text) == duration


@pytest.mark.parametrize("text", ["", "P", "PT", "1D", "P1H", "soon", "P1DT"])
def test_invalid_duration_is_rejected(text: str) -> None:
    with pytest.raises(InvalidResetTarget, match="P1DT2H30M"):
        parse_duration_ms(text)


def test_invalid_datetime_is_rejected() -> None:
    with pytest.raises(InvalidResetTarget, match="must be like 2026-01-31T12:00:00, got 'yesterday'"):
        parse_datetime_ms("yesterday")


def test_parse_offsets_file() -> None:
    assert parse_offsets_file("a,0,5\n\na,1,6\n") == {A0: 5, A1: 6}
    assert parse_offsets_file('[{"topic": "a", "partition": 0, "new_offset": 5}]') == {A0: 5}
    with pytest.raises(InvalidResetTarget, match="line 2"):
        parse_offsets_file("a,0,5\na,b\n")


def test_parse_topics() -> None:
    assert parse_topics(["a", "b:0,2"]) == {"a": None, "b": [0, 2]}
    with pytest.raises(InvalidResetTarget, match="TOPIC:0,2"):
        parse_topics(["a:x"])
