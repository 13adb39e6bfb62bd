"""The clients of a simulation take leaders from metadata as Kafka's clients do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.simulation.workload import ClusterClient

from odradek.testing.entropy import SeededEntropy
from odradek.wire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic

FIRST_ID, SECOND_ID = bytes(15) + b"\x01", bytes(15) + b"\x02"


def make_client() -> ClusterClient:
    cluster: Any = SimpleNamespace(
        brokers={1: None, 2: None}, network=SimpleNamespace(host=lambda name: None)
    )
    return ClusterClient(cluster, "client", SeededEntropy(1))


def leaders(client: ClusterClient, topic_id: bytes, leader: int, epoch: int) -> list[int]:
    partition = MetadataResponsePartition(
        error_code=0,
        partition_index=0,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=[1, 2],
        isr_nodes=[1, 2],
        offline_replicas=[],
    )
    topic = MetadataResponseTopic(
        error_code=0, name="events", topic_id=topic_id, is_internal=False, partitions=[partition]
    )
    return [entry.leader_id for entry in client.known_leaders(topic)]


def test_metadata_of_an_older_leader_epoch_is_ignored():
    client = make_client()
    assert leaders(client, FIRST_ID, leader=1, epoch=0) == [1]
    assert leaders(client, FIRST_ID, leader=2, epoch=3) == [2]
    assert leaders(client, FIRST_ID, leader=1, epoch=0) == []
    assert leaders(client, FIRST_ID, leader=2, epoch=3) == [2]


def test_leader_epochs_of_another_topic_start_over():
    client = make_client()
    assert leaders(client, FIRST_ID, leader=2, epoch=3) == [2]
    assert leaders(client, SECOND_ID, leader=1, epoch=0) == [1]


def test_leader_that_is_no_broker_is_ignored():
    assert leaders(make_client(), FIRST_ID, leader=-1, epoch=3) == []
