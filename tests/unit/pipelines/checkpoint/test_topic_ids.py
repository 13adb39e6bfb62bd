"""Which topics the offsets of a checkpoint are said of, and when that changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.pipelines.checkpoint.checkpoint import CheckpointState, PlannedBatch
from odradek.pipelines.checkpoint.topic_ids import begun_topics, has_gone_back, settled_ids

NAMES = st.sampled_from(["castle", "village"])
IDS = st.dictionaries(NAMES, st.sampled_from(["one", "two"]))


def test_a_query_that_has_not_begun_is_about_the_topics_that_are_there() -> None:
    assert settled_ids((), {"castle": "old"}, {"castle": "older"}, {"castle": "new"}) == {"castle": "new"}


def test_a_topic_that_was_made_again_keeps_the_id_that_was_pinned() -> None:
    assert settled_ids(["castle"], {"castle": "old"}, {}, {"castle": "new"}) == {"castle": "old"}


def test_what_the_group_has_committed_is_newer_than_what_was_pinned() -> None:
    found = settled_ids(["castle"], {"castle": "old"}, {"castle": "new"}, {"castle": "new"})
    assert found == {"castle": "new"}


def test_a_deleted_topic_keeps_its_id_and_one_that_nobody_pinned_is_taken_as_it_is() -> None:
    found = settled_ids(["castle", "village"], {"castle": "old"}, {}, {"village": "new"})
    assert found == {"castle": "old", "village": "new"}


@given(st.sets(NAMES), IDS, IDS, IDS)
def test_pinning_twice_changes_nothing(
    begun: set[str], pinned: dict[str, str], committed: dict[str, str], present: dict[str, str]
) -> None:
    once = settled_ids(begun, pinned, committed, present)
    assert settled_ids(begun, once, committed, present) == once
    assert set(once) >= set(present)


@pytest.mark.parametrize(
    ("planned", "topics"),
    [
        (None, set()),
        (PlannedBatch(0, 1, (), {}), set()),
        (PlannedBatch(0, 1, (None,), {}), set()),
        (PlannedBatch(0, 1, ({"castle": {"0": 1}},), {}), {"castle"}),
    ],
)
def test_the_topics_of_a_checkpoint_are_those_it_has_offsets_of(
    planned: PlannedBatch | None, topics: set[str]
) -> None:
    assert begun_topics(CheckpointState("q", planned)) == topics


@pytest.mark.parametrize(
    ("start", "end", "gone_back"),
    [
        ({"castle": {"0": 5}}, {"castle": {"0": 5}}, False),
        ({"castle": {"0": 5, "1": 5}}, {"castle": {"0": 9, "1": 0}}, True),
        ({"castle": {"0": 5}}, {}, False),
        (None, {"castle": {"0": 5}}, False),
        ({"files": 3, "version": 7}, {"files": 0, "version": 8}, False),
    ],
)
def test_a_batch_has_gone_back_if_a_partition_of_it_has(start: object, end: object, gone_back: bool) -> None:
    assert has_gone_back({"sources": [{"startOffset": start, "endOffset": end}]}) is gone_back
