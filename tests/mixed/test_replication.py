"""Replication between Kafka's brokers and ours, in both directions."""

from __future__ import annotations

import pytest
from tests.mixed.harness.load import Load, check_load, read_values
from tests.mixed.harness.log_files import check_replicas_equal
from tests.mixed.harness.mixed_cluster import BROKERS, MixedCluster
from tests.mixed.harness.run_choice import OURS
from tests.support.interbroker.clients import Clients

RECORD_COUNT = 2_000
BATCH_COUNT = 10
RECORDS_BETWEEN_CHANGES = 200
"""A batch must fit into a segment."""


@pytest.mark.parametrize("assignment", [[0, 1, 2], [2, 0, 1]], ids=["kafka-leads", "odradek-leads"])
def test_logs_are_equal_after_acks_all(
    cluster: MixedCluster, clients: Clients, assignment: list[int]
) -> None:
    topic = f"equal-logs-{assignment[0]}"
    clients.create_topic(topic, [assignment], {"segment.bytes": "16384"})
    for _ in range(BATCH_COUNT):
        clients.produce(topic, 0, RECORD_COUNT // BATCH_COUNT)
    cluster.wait_for_partition(topic, leader=assignment[0])
    check_replicas_equal(cluster, topic)
    segments = list(cluster.replica_path(OURS, topic).glob("*.log"))
    assert len(segments) > 1, "the topic's segment.bytes"
    for broker in BROKERS:
        assert len(read_values(cluster.address(broker), topic)) == RECORD_COUNT


def test_partitions_are_added_under_load(cluster: MixedCluster, clients: Clients) -> None:
    topic = "grown"
    clients.create_topic(topic, [[0, 1, 2]])
    cluster.wait_for_partition(topic)
    with Load(cluster, topic) as load:
        load.wait_for_acknowledged(RECORDS_BETWEEN_CHANGES)
        clients.create_partitions(topic, 4)
        for partition in range(4):
            cluster.wait_for_partition(topic, partition)
        load.wait_for_acknowledged(RECORDS_BETWEEN_CHANGES)
    with Load(cluster, topic, range(4), prefix=b"grown") as later:
        later.wait_for_acknowledged(RECORDS_BETWEEN_CHANGES)
    check_load(cluster, load)
    check_load(cluster, later)
    check_replicas_equal(cluster, topic, range(4))
