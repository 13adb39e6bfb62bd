"""How answers to Metadata change a client's metadata."""

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

ONE, OTHER = b"1" * 16, b"2" * 16
LETTERS = TopicPartition("letters", 0)


def told(*topics):
    brokers = [MetadataResponseBroker(id_, f"host{id_}", 9092, None) for id_ in (1, 2, 3)]
    return MetadataResponse(0, brokers, "cluster", 1, list(topics))


def partition(index=0, leader=1, epoch=0, error=0):
    return MetadataResponsePartition(error, index, leader, epoch, [1, 2], [1], [2])


def topic(name="letters", *partitions, topic_id=ONE, error=0):
    return MetadataResponseTopic(error, name, topic_id, False, list(partitions))


def apply(metadata, *topics, reliable=True, keeps=lambda name: True):
    return apply_metadata_response(metadata, told(*topics), has_reliable_epochs=reliable, keeps=keeps)


def test_an_answer_becomes_an_image():
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


def test_partitions_without_a_leader_are_not_available():
    update = apply(EMPTY_METADATA, topic("letters", partition(0), partition(1, leader=-1, error=5)))
    assert update.metadata.topics["letters"].available == (0,)
    assert update.is_unsettled


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 20)), min_size=1))
def test_an_image_never_goes_back_to_an_older_epoch(answers):
    metadata, highest, leader = EMPTY_METADATA, -1, -1
    for new_leader, epoch in answers:
        metadata = apply(metadata, topic("letters", partition(0, new_leader, epoch))).metadata
        if epoch >= highest:
            highest, leader = epoch, new_leader
        assert metadata.leader(LETTERS) == (leader, highest)


def test_a_topic_with_another_id_begins_anew():
    metadata = apply(EMPTY_METADATA, topic("letters", partition(0, 1, 9))).metadata
    metadata = apply(metadata, topic("letters", partition(0, 2, 0), topic_id=OTHER)).metadata
    assert metadata.leader(LETTERS) == (2, 0)


def test_a_broker_without_topic_ids_is_held_to_epochs_too():
    metadata = apply(EMPTY_METADATA, topic("letters", partition(0, 1, 9))).metadata
    metadata = apply(metadata, topic("letters", partition(0, 2, 3), topic_id=bytes(16))).metadata
    assert metadata.leader(LETTERS) == (1, 9)


def test_epochs_of_old_brokers_are_not_believed():
    metadata = apply(EMPTY_METADATA, topic("letters", partition(0, 1, 9))).metadata
    metadata = apply(metadata, topic("letters", partition(0, 2, 3)), reliable=False).metadata
    assert metadata.leader(LETTERS) == (2, -1)


def test_topics_an_answer_does_not_tell_of_stay_if_they_are_kept():
    metadata = apply(EMPTY_METADATA, topic("a", partition()), topic("b", partition())).metadata
    metadata = apply(metadata, topic("c", partition()), keeps=lambda name: name == "b").metadata
    assert set(metadata.topics) == {"b", "c"}


@pytest.mark.parametrize(
    ("code", "is_unsettled"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
        (ErrorCode.LEADER_NOT_AVAILABLE, True),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, False),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, False),
    ],
)
def test_a_topic_with_an_error_has_no_partitions_and_may_be_asked_for_again(code, is_unsettled):
    metadata = apply(EMPTY_METADATA, topic("letters", partition())).metadata
    update = apply(metadata, topic("letters", error=int(code)))
    assert update.metadata.topics["letters"].error is code
    assert update.metadata.partitions_for("letters") == []
    assert update.is_unsettled == is_unsettled


def test_an_answer_that_knows_no_brokers_takes_none_away():
    metadata = apply(EMPTY_METADATA, topic("letters", partition())).metadata
    nobody = MetadataResponse(0, [], "cluster", -1, [])
    after = apply_metadata_response(
        metadata, nobody, has_reliable_epochs=True, keeps=lambda name: True
    ).metadata
    assert after.nodes == metadata.nodes
    assert after.version == 2


def test_partitions_behind_a_gap_are_not_a_topics():
    metadata = apply(
        EMPTY_METADATA, topic("letters", partition(0), partition(1), partition(2**31 - 1))
    ).metadata
    assert len(metadata.topics["letters"].partitions) == 2


def test_a_leader_named_in_passing_keeps_the_version():
    metadata = apply(EMPTY_METADATA, topic("letters", partition(0, 1, 4), partition(1, 1, 4))).metadata
    changed = with_leader(metadata, LETTERS, 2, 5, [])
    assert changed.leader(LETTERS) == (2, 5)
    assert changed.version == metadata.version
    assert changed.topics["letters"].partitions[1] == metadata.topics["letters"].partitions[1]


@pytest.mark.parametrize(
    ("where", "leader", "epoch"),
    [
        (LETTERS, 2, 4),
        (LETTERS, 2, 3),
        (LETTERS, 9, 5),
        (TopicPartition("letters", 8), 2, 5),
        (TopicPartition("nowhere", 0), 2, 5),
    ],
    ids=["the same epoch", "an older one", "an unknown broker", "no such partition", "no such topic"],
)
def test_what_is_no_news_of_a_leader_is_passed_over(where, leader, epoch):
    metadata = apply(EMPTY_METADATA, topic("letters", partition(0, 1, 4))).metadata
    assert with_leader(metadata, where, leader, epoch, []) is None


def test_a_leader_may_come_with_its_address():
    metadata = apply(EMPTY_METADATA, topic("letters", partition(0, 1, 4))).metadata
    changed = with_leader(metadata, LETTERS, 9, 5, [Node(9, "host9", 9092)])
    assert changed.nodes[9].host == "host9"
    assert 9 not in metadata.nodes


def test_a_topic_for_tests_and_plans_is_built_from_its_partitions():
    built = topic_metadata("letters", ONE, [PartitionInfo("letters", 0, -1, (), ())])
    assert built.available == ()
    assert built.error is ErrorCode.NONE
