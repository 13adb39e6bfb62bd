"""Replication between Kafka's brokers and ours, in both directions."""

import pytest
from tests.mixed.load import read_values
from tests.mixed.log_files import dump_log, log_bytes
from tests.mixed.mixed_cluster import BROKERS, OURS, MixedCluster
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
    logs = {broker: log_bytes(cluster, broker, topic) for broker in BROKERS}
    assert logs[OURS] == logs[0] == logs[1]
    assert len(list(cluster.log_directory(OURS, topic, 0).glob("*.log"))) > 1, "the topic's segment.bytes"
    dump = dump_log(cluster, OURS, topic)
    assert len(dump) > RECORD_COUNT
    assert dump == dump_log(cluster, 0, topic)
    assert len(read_values(cluster.bootstrap, topic)) == RECORD_COUNT
