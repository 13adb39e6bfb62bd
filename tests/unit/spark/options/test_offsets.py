"""Offsets in Spark's JSON form, and resolution of offset limits."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek import ConfigError, NoOffset, OffsetAndMetadata, OffsetSpec, TopicPartition
from odradek.spark.options.offsets import (
    GroupOffset,
    LogBound,
    OffsetLimit,
    SpecificOffset,
    SpecificTimestamp,
    offsets_from_json,
    offsets_to_json,
)
from odradek.spark.source.offset_resolution import (
    offset_specs,
    partition_limits,
    resolve_offsets,
    timestamp_partitions,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
PARTITIONS = st.builds(TopicPartition, st.sampled_from(["a", "b", "a.b"]), st.integers(0, 20))
OFFSETS = st.dictionaries(PARTITIONS, st.integers(0, 2**63 - 1))


@given(offsets=OFFSETS, order=st.randoms())
def test_equal_offsets_give_equal_json(offsets, order) -> None:
    shuffled = list(offsets.items())
    order.shuffle(shuffled)
    text = json.dumps(offsets_to_json(offsets))
    assert json.dumps(offsets_to_json(dict(shuffled))) == text
    # And after a round trip through Spark.
    assert json.dumps(offsets_to_json(offsets_from_json(json.loads(text)))) == text


@given(offsets=OFFSETS)
def test_offsets_round_trip_through_json(offsets) -> None:
    assert offsets_from_json(json.loads(json.dumps(offsets_to_json(offsets)))) == offsets


def test_partitions_are_sorted_by_number() -> None:
    ten = TopicPartition("a", 10)
    assert list(offsets_to_json({ten: 1, TopicPartition("a", 9): 1})["a"]) == ["9", "10"]


def test_unknown_topic_in_starting_offsets_is_rejected() -> None:
    limit = OffsetLimit(LogBound.LATEST, {A0: SpecificOffset(1), B0: SpecificOffset(1)})
    limit.check_known("startingOffsets", [A0, A1, B0])
    with pytest.raises(ConfigError, match="startingOffsets names b-0, which this query does not read"):
        limit.check_known("startingOffsets", [A0, A1])


def test_offset_specs_exclude_specific_offsets() -> None:
    limit = OffsetLimit(LogBound.EARLIEST, {A1: SpecificTimestamp(99), B0: SpecificOffset(5)})
    limits = partition_limits(limit, [A0, A1, B0], {})
    assert offset_specs(limits) == {A0: OffsetSpec.EARLIEST, A1: 99}
    assert timestamp_partitions(limits) == [A1]
    assert resolve_offsets(limits, {A0: 3, A1: 4}, {A1: 9}, late_is_error=True) == {A0: 3, A1: 4, B0: 5}


def test_group_offsets_with_fallback() -> None:
    limits = partition_limits(OffsetLimit(GroupOffset(LogBound.LATEST)), [A0, A1], {A0: OffsetAndMetadata(7)})
    assert limits == {A0: SpecificOffset(7), A1: LogBound.LATEST}


def test_timestamp_after_the_last_record_is_an_error_or_the_log_end() -> None:
    limits = partition_limits(OffsetLimit(SpecificTimestamp(99)), [A0, A1], {})
    listed_offsets, ends = {A0: -1, A1: 4}, {A0: 12, A1: 9}
    assert resolve_offsets(limits, listed_offsets, ends, late_is_error=False) == {A0: 12, A1: 4}
    with pytest.raises(
        NoOffset, match=r"a-0 has no record at or after .* startingOffsetsByTimestampStrategy"
    ):
        resolve_offsets(limits, listed_offsets, ends, late_is_error=True)
