"""Replication between Kafka's brokers and ours, in both directions."""

from __future__ import annotations

import pytest
from tests.mixed.harness.load import read_values
from tests.mixed.harness.log_files import check_replicas_equal
from tests.mixed.harness.mixed_cluster import BROKERS, OURS, MixedCluster
from tests.support.interbroker.clients import Clients

RECORD_COUNT = 2_000
BATCH_COUNT = 10
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
