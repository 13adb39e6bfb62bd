"""Replicas moved to the only broker of its kind and away by Kafka's tool, also cancelled midway."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from tests.mixed.harness.kafka_tools import Reassignment
from tests.mixed.harness.load import Load, check_load
from tests.mixed.harness.log_files import check_replicas_equal
from tests.mixed.harness.mixed_cluster import MixedCluster
from tests.mixed.harness.run_choice import KAFKA, LONE, OURS, PAIR, needs, others_than
from tests.support.interbroker.clients import Clients

RECORDS_BETWEEN_FAULTS = 200
THROTTLE = 50_000
FILLING = b"x" * 1000
FILLING_COUNT = 12_000
"""Records that take two minutes under the throttle, in fetches of a MiB, each of which exceeds it."""


def fill(cluster: MixedCluster, topic: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
    for _ in range(FILLING_COUNT):
        producer.produce(topic, FILLING, partition=0)
    assert producer.flush(180) == 0


def test_partition_moves_to_the_other_kind_and_back(cluster: MixedCluster, clients: Clients) -> None:
    topic, (first, second) = "moved", PAIR
    clients.create_topic(topic, [PAIR])
    reassignment = Reassignment(cluster, topic)
    with Load(cluster, topic) as load:
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        for replicas in ([LONE, first], [first, second], [second, LONE], [first, LONE, second]):
            reassignment.execute(replicas)
            reassignment.wait_until_complete()
            cluster.wait_for_partition(topic, isr=replicas)
            if LONE not in replicas:
                cluster.wait_until(lambda: not cluster.replica_path(LONE, topic).exists())
            load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
    check_load(cluster, load)
    check_replicas_equal(cluster, topic)


MOVES = pytest.mark.parametrize(
    ("origin", "target", "replacement"),
    [
        ([*PAIR], [PAIR[0], LONE], [PAIR[1], LONE]),
        ([LONE, PAIR[0]], [PAIR[1], PAIR[0]], [*PAIR]),
    ],
    ids=["to-the-other-kind", "from-the-other-kind"],
)


@MOVES
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
    cancel_then_replace(cluster, topic, target, replacement, lambda: None)


@needs("both controllers")
@pytest.mark.parametrize("starter", [OURS, KAFKA], ids=["ours-starts", "kafka-starts"])
@MOVES
def test_move_is_cancelled_then_replaced_under_another_controller(
    cluster: MixedCluster,
    clients: Clients,
    origin: list[int],
    target: list[int],
    replacement: list[int],
    starter: int,
) -> None:
    """One kind starts the move that the other cancels, and the next one the other way round."""
    topic = f"replaced-{origin[0]}-of-{starter}"
    clients.create_topic(topic, [origin])
    cluster.wait_for_partition(topic, leader=origin[0], isr=origin)
    fill(cluster, topic)
    cluster.elect_controller(starter)
    controllers = iter([KAFKA if starter == OURS else OURS, starter])
    cancel_then_replace(
        cluster, topic, target, replacement, lambda: cluster.elect_controller(next(controllers))
    )


def cancel_then_replace(
    cluster: MixedCluster,
    topic: str,
    target: list[int],
    replacement: list[int],
    on_pending: Callable[[], None],
) -> None:
    """Start a move, cancel it, start it again and replace it, under load; check the records."""
    origin = cluster.znodes.topic(topic)["partitions"]["0"]
    (added,) = set(target) - set(origin)
    reassignment = Reassignment(cluster, topic)

    def start_move() -> None:
        reassignment.execute(target, THROTTLE)
        cluster.wait_until(lambda: cluster.replica_path(added, topic).exists())
        on_pending()
        assert reassignment.is_pending

    with Load(cluster, topic) as load:
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        start_move()
        reassignment.cancel()
        cluster.wait_until(lambda: not reassignment.is_pending)
        cluster.wait_until(lambda: not cluster.replica_path(added, topic).exists())
        cluster.wait_for_partition(topic, leader=origin[0], isr=origin)
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)

        start_move()
        reassignment.execute(replacement, 100 << 20, replaces=True)
        reassignment.wait_until_complete()
        cluster.wait_for_partition(topic, leader=replacement[0], isr=replacement)
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
    check_load(cluster, load)
    check_replicas_equal(cluster, topic, replicas=replacement)
    (removed,) = others_than(*replacement)
    cluster.wait_until(lambda: not cluster.replica_path(removed, topic).exists())
