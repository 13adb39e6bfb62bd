"""Nodes that name a broker get its new id; all others stay as they are."""

from __future__ import annotations

import pytest

from odradek.model.ids import TopicPartition
from odradek.store.layout.znodes import (
    LeaderIsrAndControllerEpoch,
    ProducerIdBlock,
    ReplicaAssignment,
    TopicAssignment,
    decode_partition_state,
    decode_topic,
    encode_config,
    encode_partition_state,
    encode_producer_id_block,
    encode_reassignment,
    encode_topic,
)
from odradek.store.transfer.renumbering import renumber

STATE = "/brokers/topics/state/partitions/0/state"


def test_assignment_keeps_the_topic_id() -> None:
    topic = TopicAssignment(bytes(range(16)), {0: ReplicaAssignment((0,), (0, 2), (3,))})
    path, data = renumber("/brokers/topics/letters", encode_topic(topic), 0, 1)
    assert path == "/brokers/topics/letters"
    assert decode_topic(path, data) == TopicAssignment(
        topic.topic_id, {0: ReplicaAssignment((1,), (1, 2), (3,))}
    )


@pytest.mark.parametrize("leader", [0, -1])
def test_leader_and_isr_keep_their_epochs(leader: int) -> None:
    state = LeaderIsrAndControllerEpoch(leader, 7, (0,), 5, is_recovering=True)
    _, data = renumber(STATE, encode_partition_state(state), 0, 1)
    expected = LeaderIsrAndControllerEpoch(1 if leader == 0 else -1, 7, (1,), 5, is_recovering=True)
    assert decode_partition_state(STATE, data) == expected


def test_configs_of_the_broker_move_and_those_of_others_stay() -> None:
    data = encode_config({"log.cleaner.threads": "2"})
    assert renumber("/config/brokers/0", data, 0, 1) == ("/config/brokers/1", data)
    assert renumber("/config/brokers/<default>", data, 0, 1) == ("/config/brokers/<default>", data)
    assert renumber("/config/brokers/10", data, 0, 1) == ("/config/brokers/10", data)


def test_throttled_replicas_name_the_new_broker() -> None:
    name = "leader.replication.throttled.replicas"
    before = encode_config({name: "0:0,1:0,0:2", "retention.ms": "1"})
    after = encode_config({name: "0:1,1:1,0:2", "retention.ms": "1"})
    assert renumber("/config/topics/letters", before, 0, 1) == ("/config/topics/letters", after)
    wildcard = encode_config({name: "*"})
    assert renumber("/config/topics/letters", wildcard, 0, 1)[1] == wildcard


def test_block_of_producer_ids_and_reassignment_name_the_new_broker() -> None:
    block = encode_producer_id_block(ProducerIdBlock(0, 1000, 1999))
    assert renumber("/latest_producer_id_block", block, 0, 1)[1] == encode_producer_id_block(
        ProducerIdBlock(1, 1000, 1999)
    )
    partition = TopicPartition("letters", 0)
    assert renumber("/admin/reassign_partitions", encode_reassignment({partition: (0, 3)}), 0, 1)[
        1
    ] == encode_reassignment({partition: (1, 3)})


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/brokers/topics", b""),
        ("/brokers/topics/letters/partitions", b""),
        ("/latest_producer_id_block", b""),
        ("/consumers/g/offsets/letters/0", b"0"),
        ("/config/topics/letters", b'{"version":1, "config":{}}'),
    ],
)
def test_other_nodes_stay(path: str, data: bytes) -> None:
    assert renumber(path, data, 0, 1) == (path, data)


def test_same_id_changes_nothing() -> None:
    # Not even the spelling of a node that another version wrote.
    assert renumber("/brokers/topics/letters", b"not json", 3, 3) == ("/brokers/topics/letters", b"not json")
