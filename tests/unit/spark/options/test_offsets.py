"""Offsets as Spark keeps them, and positions as offsets."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek import ConfigError, NoOffset, OffsetAndMetadata, OffsetSpec, TopicPartition
from odradek.spark.options.offsets import AtCommit, AtOffset, AtTime, Edge, Position, document, parse
from odradek.spark.source.offset_resolution import questions, settled, spots_of, timed

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
PARTITIONS = st.builds(TopicPartition, st.sampled_from(["a", "b", "a.b"]), st.integers(0, 20))
OFFSETS = st.dictionaries(PARTITIONS, st.integers(0, 2**63 - 1))


@given(offsets=OFFSETS, order=st.randoms())
def test_the_same_offsets_always_give_the_same_text(offsets, order) -> None:
    shuffled = list(offsets.items())
    order.shuffle(shuffled)
    text = json.dumps(document(offsets))
    assert json.dumps(document(dict(shuffled))) == text
    # And again when Spark has handed them back.
    assert json.dumps(document(parse(json.loads(text)))) == text


@given(offsets=OFFSETS)
def test_offsets_come_back_as_they_were(offsets) -> None:
    assert parse(json.loads(json.dumps(document(offsets)))) == offsets


def test_partitions_are_sorted_by_number() -> None:
    ten = TopicPartition("a", 10)
    assert list(document({ten: 1, TopicPartition("a", 9): 1})["a"]) == ["9", "10"]


def test_a_misspelt_topic_in_a_position_does_not_go_unseen() -> None:
    position = Position(Edge.LATEST, {A0: AtOffset(1), B0: AtOffset(1)})
    position.check_known("startingOffsets", [A0, A1, B0])
    with pytest.raises(ConfigError, match="startingOffsets names b-0, which this query does not read"):
        position.check_known("startingOffsets", [A0, A1])


def test_only_what_is_not_given_is_asked() -> None:
    position = Position(Edge.EARLIEST, {A1: AtTime(99), B0: AtOffset(5)})
    spots = spots_of(position, [A0, A1, B0], {})
    assert questions(spots) == {A0: OffsetSpec.EARLIEST, A1: 99}
    assert timed(spots) == [A1]
    assert settled(spots, {A0: 3, A1: 4}, {A1: 9}, late_is_error=True) == {A0: 3, A1: 4, B0: 5}


def test_a_groups_commits_take_its_place_and_the_rest_falls_back() -> None:
    spots = spots_of(Position(AtCommit(Edge.LATEST)), [A0, A1], {A0: OffsetAndMetadata(7)})
    assert spots == {A0: AtOffset(7), A1: Edge.LATEST}


def test_a_time_after_the_last_record_is_an_error_or_the_end() -> None:
    spots = spots_of(Position(AtTime(99)), [A0, A1], {})
    answers, ends = {A0: -1, A1: 4}, {A0: 12, A1: 9}
    assert settled(spots, answers, ends, late_is_error=False) == {A0: 12, A1: 4}
    with pytest.raises(
        NoOffset, match=r"a-0 has no record at or after .* startingOffsetsByTimestampStrategy"
    ):
        settled(spots, answers, ends, late_is_error=True)
