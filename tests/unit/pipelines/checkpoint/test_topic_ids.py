"""Topic ids of a checkpoint's offsets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.pipelines.checkpoint.checkpoint import CheckpointState, PlannedBatch
from odradek.pipelines.checkpoint.topic_ids import checkpointed_topics, has_moved_backwards, resolve_topic_ids

NAMES = st.sampled_from(["castle", "village"])
IDS = st.dictionaries(NAMES, st.sampled_from(["one", "two"]))


def test_new_query_uses_current_topic_ids() -> None:
    assert resolve_topic_ids((), {"castle": "old"}, {"castle": "older"}, {"castle": "new"}) == {
        "castle": "new"
    }


def test_recreated_topic_keeps_the_stored_id() -> None:
    assert resolve_topic_ids(["castle"], {"castle": "old"}, {}, {"castle": "new"}) == {"castle": "old"}


def test_committed_ids_override_stored_ids() -> None:
    ids = resolve_topic_ids(["castle"], {"castle": "old"}, {"castle": "new"}, {"castle": "new"})
    assert ids == {"castle": "new"}


def test_deleted_topic_keeps_its_id_and_unknown_one_gets_the_current() -> None:
    ids = resolve_topic_ids(["castle", "village"], {"castle": "old"}, {}, {"village": "new"})
    assert ids == {"castle": "old", "village": "new"}


@given(st.sets(NAMES), IDS, IDS, IDS)
def test_resolving_topic_ids_is_idempotent(
    checkpointed: set[str], stored: dict[str, str], committed: dict[str, str], current: dict[str, str]
) -> None:
    once = resolve_topic_ids(checkpointed, stored, committed, current)
    assert resolve_topic_ids(checkpointed, once, committed, current) == once
    assert set(once) >= set(current)


@pytest.mark.parametrize(
    ("planned", "topics"),
    [
        (None, set()),
        (PlannedBatch(0, 1, (), {}), set()),
        (PlannedBatch(0, 1, (None,), {}), set()),
        (PlannedBatch(0, 1, ({"castle": {"0": 1}},), {}), {"castle"}),
    ],
)
def test_checkpointed_topics_have_offsets(planned: PlannedBatch | None, topics: set[str]) -> None:
    assert checkpointed_topics(CheckpointState("q", planned)) == topics


@pytest.mark.parametrize(
    ("start", "end", "moved_backwards"),
    [
        ({"castle": {"0": 5}}, {"castle": {"0": 5}}, False),
        ({"castle": {"0": 5, "1": 5}}, {"castle": {"0": 9, "1": 0}}, True),
        ({"castle": {"0": 5}}, {}, False),
        (None, {"castle": {"0": 5}}, False),
        ({"files": 3, "version": 7}, {"files": 0, "version": 8}, False),
    ],
)
def test_batch_moved_backwards_if_a_partition_did(start: object, end: object, moved_backwards: bool) -> None:
    assert has_moved_backwards({"sources": [{"startOffset": start, "endOffset": end}]}) is moved_backwards
