"""Znodes of a mixed cluster beside those of a cluster of Kafka's brokers, after the same operations."""

from __future__ import annotations

from pathlib import Path

import pytest
from kio.schema.metadata.v8 import request as metadata
from tests.mixed.harness.mixed_cluster import ALL_KAFKA, BROKERS, MixedCluster
from tests.mixed.harness.run_choice import IS_OURS, KAFKA_BROKERS, OURS
from tests.mixed.harness.znodes import comparable
from tests.support.interbroker.clients import BROKER_CONFIG, TOPIC_CONFIG, Clients
from tests.support.raw_connection import RawConnection

SPREAD = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
TOPICS = ("znodes-orders", "znodes-moved", "znodes-deleted")
AUTO_CREATED = "znodes-auto"
VOLATILE = ("leader_epoch",) if IS_OURS else ()
"""Our controller starts a leader epoch where a broker has registered since the state was written (ADR 0016).

After the restart that depends on whether the replica is in the ISR before our broker is controller again.
"""


def create(cluster: MixedCluster, clients: Clients, topic: str, assignment: list[list[int]]) -> None:
    clients.create_topic(topic, assignment)
    for partition, replicas in enumerate(assignment):
        cluster.wait_for_partition(topic, partition, leader=replicas[0], isr=replicas)


def auto_create(cluster: MixedCluster, broker: int, topic: str) -> None:
    request = metadata.MetadataRequest(
        topics=(metadata.MetadataRequestTopic(name=topic),),  # type: ignore[arg-type]
        allow_auto_topic_creation=True,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    with RawConnection(cluster.address(broker)) as connection:
        connection.exchange(request)
    cluster.wait_for_partition(topic)


def run_operations(cluster: MixedCluster, controller: int) -> dict[str, str]:
    """Change topics, settings and roles, through broker 2 where any broker may; return the znodes."""
    clients = Clients(cluster.address(OURS))
    orders, moved, deleted = TOPICS
    cluster.elect_controller(controller)
    cluster.specs[OURS].settings["auto.create.topics.enable"] = "true"
    cluster.restart(OURS)
    port = cluster.specs[OURS].port
    create(cluster, clients, orders, SPREAD)
    clients.set_config(port, TOPIC_CONFIG, orders, "retention.ms", "3600000")
    clients.set_config(port, BROKER_CONFIG, str(OURS), "background.threads", "8")
    auto_create(cluster, OURS, AUTO_CREATED)
    for partition in range(3):
        clients.produce(orders, partition, 10)
    create(cluster, clients, moved, [[0, 1]])
    elected = cluster.znodes.controller()  # since the restart it may be another one of its kind
    clients.reassign(cluster.specs[elected].port, moved, 0, [OURS, 1])
    cluster.wait_until(lambda: cluster.znodes.topic(moved)["partitions"] == {"0": [OURS, 1]})
    create(cluster, clients, deleted, SPREAD)
    clients.delete_topic(deleted)
    cluster.wait_until(lambda: not cluster.znodes.topic(deleted))
    cluster.restart(OURS)
    for partition in range(3):
        cluster.wait_for_partition(orders, partition)
    cluster.wait_for_partition(moved, isr=[OURS, 1])
    clients.elect_preferred([(orders, 2), (moved, 0)])
    cluster.wait_for_partition(orders, 2, leader=OURS)
    cluster.wait_for_partition(moved, leader=OURS, isr=[OURS, 1])
    return comparable(cluster.znodes.tree(), TOPICS, [AUTO_CREATED], VOLATILE)


@pytest.mark.timeout(900)
def test_znodes_equal_those_of_a_cluster_of_kafka(
    cluster: MixedCluster, classpath: str, tmp_path: Path
) -> None:
    mixed = run_operations(cluster, OURS if IS_OURS else KAFKA_BROKERS[0])
    cluster_of_kafka = MixedCluster(classpath, tmp_path / "kafka", ALL_KAFKA)
    try:
        cluster_of_kafka.start_all()
        expected = run_operations(cluster_of_kafka, KAFKA_BROKERS[0])
    finally:
        cluster_of_kafka.close()
    assert mixed == expected
    assert len(mixed) > len(BROKERS) + 10
