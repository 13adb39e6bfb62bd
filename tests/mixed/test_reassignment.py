"""Replicas moved to our broker and away from it by Kafka's tool, also cancelled and replaced midway."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from tests.mixed.harness.kafka_tools import Reassignment
from tests.mixed.harness.load import Load, check_load
from tests.mixed.harness.log_files import check_replicas_equal
from tests.mixed.harness.mixed_cluster import OURS, MixedCluster
from tests.support.interbroker.clients import Clients

RECORDS_BETWEEN_FAULTS = 200
THROTTLE = 50_000
FILLING = b"x" * 1000
FILLING_COUNT = 6_000
"""Records that take two minutes under the throttle."""


def fill(cluster: MixedCluster, topic: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
    for _ in range(FILLING_COUNT):
        producer.produce(topic, FILLING, partition=0)
    assert producer.flush(60) == 0


def test_partition_moves_to_our_broker_and_back(cluster: MixedCluster, clients: Clients) -> None:
    topic = "moved"
    clients.create_topic(topic, [[0, 1]])
    reassignment = Reassignment(cluster, topic)
    with Load(cluster, topic) as load:
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        for replicas in ([OURS, 0], [0, 1], [1, OURS], [0, OURS, 1]):
            reassignment.execute(replicas)
            reassignment.wait_until_complete()
            cluster.wait_for_partition(topic, isr=replicas)
            if OURS not in replicas:
                cluster.wait_until(lambda: not cluster.replica_path(OURS, topic).exists())
            load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
    check_load(cluster, load)
    check_replicas_equal(cluster, topic)


@pytest.mark.parametrize(
    ("origin", "target", "replacement"),
    [([0, 1], [0, OURS], [1, OURS]), ([OURS, 0], [1, 0], [0, 1])],
    ids=["to-ours", "from-ours"],
)
def test_move_is_cancelled_then_replaced_midway(
    cluster: MixedCluster,
    clients: Clients,
    origin: list[int],
    target: list[int],
    replacement: list[int],
) -> None:
    topic = f"replaced-{origin[0]}"
    clients.create_topic(topic, [origin])
    cluster.wait_for_partition(topic, leader=origin[0], isr=origin)
    fill(cluster, topic)
    (added,) = set(target) - set(origin)
    reassignment = Reassignment(cluster, topic)
    with Load(cluster, topic) as load:
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        reassignment.execute(target, THROTTLE)
        cluster.wait_until(lambda: cluster.replica_path(added, topic).exists())
        assert reassignment.is_pending
        reassignment.cancel()
        cluster.wait_until(lambda: not reassignment.is_pending)
        cluster.wait_until(lambda: not cluster.replica_path(added, topic).exists())
        cluster.wait_for_partition(topic, leader=origin[0], isr=origin)
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)

        reassignment.execute(target, THROTTLE)
        cluster.wait_until(lambda: cluster.replica_path(added, topic).exists())
        assert reassignment.is_pending
        reassignment.execute(replacement, 100 << 20, replaces=True)
        reassignment.wait_until_complete()
        cluster.wait_for_partition(topic, leader=replacement[0], isr=replacement)
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
    check_load(cluster, load)
    check_replicas_equal(cluster, topic, replicas=replacement)
    (removed,) = {0, 1, 2} - set(replacement)
    cluster.wait_until(lambda: not cluster.replica_path(removed, topic).exists())
