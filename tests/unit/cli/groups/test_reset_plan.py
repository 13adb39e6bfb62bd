"""Where a group shall go on reading."""

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
    plan_offset_changes,
    read_file,
    read_topics,
    shifted,
)
from odradek.model.ids import TopicPartition

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def test_offsets_outside_of_a_log_are_moved_to_its_nearer_end() -> None:
    bounds = {A0: OffsetBounds(5, 10), A1: OffsetBounds(5, 10)}
    assert plan_offset_changes({A1: 99, A0: 1}, bounds, {A0: 7}) == [
        OffsetChange(A0, 7, 5),
        OffsetChange(A1, -1, 10),
    ]


@given(st.integers(), st.integers(0, 100), st.integers(0, 100))
def test_a_planned_offset_lies_in_the_log_and_is_the_wish_if_that_does(
    wish: int, first: int, size: int
) -> None:
    bounds = OffsetBounds(first, first + size)
    (move,) = plan_offset_changes({A0: wish}, {A0: bounds}, {})
    assert bounds.first <= move.after <= bounds.end
    assert move.after == wish or not bounds.first <= wish <= bounds.end


def test_committed_offsets_are_shifted_and_others_cannot_be() -> None:
    assert shifted({A0: 7}, [A0], -3) == {A0: 4}
    with pytest.raises(InvalidResetTarget, match="nothing is committed for a-1"):
        shifted({A0: 7}, [A0, A1], 1)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1970-01-01T00:00:01", 1000),
        ("1970-01-01T00:00:01.500", 1500),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-02", 86_400_000),
    ],
)
def test_a_moment_is_read_as_utc_unless_it_says_otherwise(text: str, moment: int) -> None:
    assert parse_datetime_ms(text) == moment


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
def test_a_duration_is_read(text: str, duration: int) -> None:
    assert parse_duration_ms(text) == duration


@pytest.mark.parametrize("text", ["", "P", "PT", "1D", "P1H", "soon", "P1DT"])
def test_what_is_no_duration_is_told(text: str) -> None:
    with pytest.raises(InvalidResetTarget, match="P1DT2H30M"):
        parse_duration_ms(text)


def test_what_is_no_moment_is_told() -> None:
    with pytest.raises(InvalidResetTarget, match="2026-01-31"):
        parse_datetime_ms("yesterday")


def test_offsets_are_read_from_lines_of_kafkas_tool_and_from_our_own_json() -> None:
    assert read_file("a,0,5\n\na,1,6\n") == {A0: 5, A1: 6}
    assert read_file('[{"topic": "a", "partition": 0, "new_offset": 5}]') == {A0: 5}
    with pytest.raises(InvalidResetTarget, match="line 2"):
        read_file("a,0,5\na,b\n")


def test_topics_are_named_with_or_without_partitions() -> None:
    assert read_topics(["a", "b:0,2"]) == {"a": None, "b": [0, 2]}
    with pytest.raises(InvalidResetTarget, match="TOPIC:0,2"):
        read_topics(["a:x"])
