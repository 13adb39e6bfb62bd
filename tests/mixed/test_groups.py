"""Consumer groups whose coordinator moves between our broker and Kafka's."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.mixed.harness.coordinators import OFFSETS, name_coordinated_by, partition_of, spread_leaders
from tests.mixed.harness.mixed_cluster import MixedCluster
from tests.mixed.harness.run_choice import OURS, others_than
from tests.support.interbroker.clients import Clients

SECONDS_MAX = 120.0
RECORD_COUNT = 40


@contextmanager
def open_consumer(cluster: MixedCluster, group: str, topic: str) -> Iterator[Consumer]:
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "log_level": 2,
    }
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


def read(consumer: Consumer, count: int) -> list[int]:
    """Read so many records, commit them, and return their offsets."""
    offsets: list[int] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(offsets) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{count} records must be read within {SECONDS_MAX} s, got {len(offsets)}")
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            offsets.append(message.offset() or 0)
            last = message
    consumer.commit(message=last, asynchronous=False)
    return offsets


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
def test_group_keeps_its_offsets_when_its_coordinator_moves(
    cluster: MixedCluster, clients: Clients, is_killed: bool
) -> None:
    topic = f"groups-{is_killed}"
    clients.create_topic(topic, [[0, 1, 2]])
    clients.produce(topic, 0, RECORD_COUNT)
    with open_consumer(cluster, "first", topic) as consumer:  # which creates the topic of offsets
        read(consumer, 1)
    spread_leaders(cluster, clients, OFFSETS)
    group = name_coordinated_by(cluster, OFFSETS, OURS, topic)
    with open_consumer(cluster, group, topic) as consumer:
        assert read(consumer, 10) == list(range(10))
    with open_consumer(cluster, group, topic) as consumer:
        assert read(consumer, 10) == list(range(10, 20))
        (cluster.kill if is_killed else cluster.stop)(OURS)
        cluster.wait_for_partition(OFFSETS, partition_of(group), isr=others_than(OURS))
        assert read(consumer, 10) == list(range(20, 30))
        cluster.start(OURS)
        spread_leaders(cluster, clients, OFFSETS)
        assert read(consumer, 5) == list(range(30, 35))
        assert consumer.committed([TopicPartition(topic, 0)], SECONDS_MAX)[0].offset == 35
    with open_consumer(cluster, group, topic) as consumer:
        assert read(consumer, 5) == list(range(35, 40))
