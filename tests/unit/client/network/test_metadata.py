"""Effect of Metadata responses on the cluster metadata."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.network.metadata import (
    EMPTY_METADATA,
    apply_metadata_response,
    topic_metadata,
    with_leader,
)
from odradek.client.values import Node, PartitionInfo
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

FIRST_ID, SECOND_ID = b"1" * 16, b"2" * 16
LETTERS = TopicPartition("letters", 0)


def response(*topics):
    brokers = [MetadataResponseBroker(id_, f"host{id_}", 9092, None) for id_ in (1, 2, 3)]
    return MetadataResponse(0, brokers, "cluster", 1, list(topics))


def partition(index=0, leader=1, epoch=0, error=0):
    return MetadataResponsePartition(error, index, leader, epoch, [1, 2], [1], [2])


def topic(name="letters", *partitions, topic_id=FIRST_ID, error=0):
    return MetadataResponseTopic(error, name, topic_id, False, list(partitions))


def apply(metadata, *topics, reliable=True, keeps=lambda name: True):
    return apply_metadata_response(metadata, response(*topics), has_reliable_epochs=reliable, keeps=keeps)


def test_response_is_applied_to_empty_metadata():
    metadata = apply(EMPTY_METADATA, topic("letters", partition(1, 2, 5), partition(0, 1, 4))).metadata
    assert metadata.version == 1
    assert metadata.nodes[2] == Node(2, "host2", 9092)
    assert metadata.controller_id == 1
    assert metadata.partitions_for("letters") == [
        PartitionInfo("letters", 0, 1, (1, 2), (1,), (2,), 4),
        PartitionInfo("letters", 1, 2, (1, 2), (1,), (2,), 5),
    ]
    assert metadata.leader(TopicPartition("letters", 1)) == (2, 5)
    assert metadata.leader(TopicPartition("letters", 2)) == (-1, -1)
    assert metadata.leader(TopicPartition("nowhere", 0)) == (-1, -1)
    assert metadata.partitions_for("nowhere") == []


def test_partitions_without_leader_are_not_available():
    update = apply(EMPTY_METADATA, topic("letters", partition(0), partition(1, leader=-1, error=5)))
    assert update.metadata.topics["letters"].available == (0,)
    assert update.is_stale


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 20)), min_size=1))
def test_leader_epoch_never_goes_back(leaders):
    metadata, highest, leader = EMPTY_METADATA, -1, -1
    for new_leader, epoch in leaders:
        metadata = apply(metadata, topic("letters", partition(0, new_leader, epoch))).metadata
        if epoch >= highest:
            highest, leader = epoch, new_leader
        assert metadata.leader(LETTERS) == (leader, highest)


def test_new_topic_id_resets_leader_epochs():
    metadata = apply(EMPTY_METADATA, topic("letters", partition(0, 1, 9))).metadata
    metadata = apply(metadata, topic("letters", partition(0, 2, 0), topic_id=SECOND_ID)).metadata
    assert metadata.leader(LETTERS) == (2, 0)


def test_leader_epochs_are_compared_without_topic_ids():
    metadata = apply(EMPTY_METADATA, topic("letters", partition(0, 1, 9))).metadata
    metadata = apply(metadata, topic("letters", partition(0, 2, 3), topic_id=bytes(16))).metadata
    assert metadata.leader(LETTERS) == (1, 9)


def test_unreliable_leader_epochs_are_ignored():
    metadata = apply(EMPTY_METADATA, topic("letters", partition(0, 1, 9))).metadata
    metadata = apply(metadata, topic("letters", partition(0, 2, 3)), reliable=False).metadata
    assert metadata.leader(LETTERS) == (2, -1)


def test_topics_missing_in_the_response_are_retained_on_request():
    metadata = apply(EMPTY_METADATA, topic("a", partition()), topic("b", partition())).metadata
    metadata = apply(metadata, topic("c", partition()), keeps=lambda name: name == "b").metadata
    assert set(metadata.topics) == {"b", "c"}


@pytest.mark.parametrize(
    ("code", "is_stale"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
        (ErrorCode.LEADER_NOT_AVAILABLE, True),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, False),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, False),
    ],
)
def test_topic_with_error_has_no_partitions(code, is_stale):
    metadata = apply(EMPTY_METADATA, topic("letters", partition())).metadata
    update = apply(metadata, topic("letters", error=int(code)))
    assert update.metadata.topics["letters"].error is code
    assert update.metadata.partitions_for("letters") == []
    assert update.is_stale == is_stale


def test_response_without_brokers_keeps_the_known_nodes():
    metadata = apply(EMPTY_METADATA, topic("letters", partition())).metadata
    no_brokers = MetadataResponse(0, [], "cluster", -1, [])
    after = apply_metadata_response(
        metadata, no_brokers, has_reliable_epochs=True, keeps=lambda name: True
    ).metadata
    assert after.nodes == metadata.nodes
    assert after.version == 2


def test_partitions_after_a_gap_are_ignored():
    metadata = apply(
        EMPTY_METADATA, topic("letters", partition(0), partition(1), partition(2**31 - 1))
    ).metadata
    assert len(metadata.topics["letters"].partitions) == 2


def test_with_leader_keeps_the_metadata_version():
    metadata = apply(EMPTY_METADATA, topic("letters", partition(0, 1, 4), partition(1, 1, 4))).metadata
    changed = with_leader(metadata, LETTERS, 2, 5, [])
    assert changed is not None
    assert changed.leader(LETTERS) == (2, 5)
    assert changed.version == metadata.version
    assert changed.topics["letters"].partitions[1] == metadata.topics["letters"].partitions[1]


@pytest.mark.parametrize(
    ("partition_key", "leader", "epoch"),
    [
        (LETTERS, 2, 4),
        (LETTERS, 2, 3),
        (LETTERS, 9, 5),
        (TopicPartition("letters", 8), 2, 5),
        (TopicPartition("nowhere", 0), 2, 5),
    ],
    ids=["same epoch", "older epoch", "unknown broker", "unknown partition", "unknown topic"],
)
def test_with_leader_ignores_stale_or_unknown_leaders(partition_key, leader, epoch):
    metadata = apply(EMPTY_METADATA, topic("letters", partition(0, 1, 4))).metadata
    assert with_leader(metadata, partition_key, leader, epoch, []) is None


def test_with_leader_adds_node_endpoints():
    metadata = apply(EMPTY_METADATA, topic("letters", partition(0, 1, 4))).metadata
    changed = with_leader(metadata, LETTERS, 9, 5, [Node(9, "host9", 9092)])
    assert changed is not None
    assert changed.nodes[9].host == "host9"
    assert 9 not in metadata.nodes


def test_topic_metadata_of_partitions():
    metadata = topic_metadata("letters", FIRST_ID, [PartitionInfo("letters", 0, -1, (), ())])
    assert metadata.available == ()
    assert metadata.error is ErrorCode.NONE
