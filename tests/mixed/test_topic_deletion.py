"""Topics deleted, and created again under the same name, while a broker is down."""

from __future__ import annotations

import shutil

import pytest
from tests.mixed.harness.load import Load, check_load
from tests.mixed.harness.log_files import check_replicas_equal, read_batches
from tests.mixed.harness.mixed_cluster import BROKERS, MixedCluster
from tests.mixed.harness.run_choice import KAFKA, OURS, needs, others_than
from tests.support.interbroker.clients import Clients

RECORDS_BETWEEN_FAULTS = 200
FORMER_RECORDS = 100
SPREAD = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]


def create(cluster: MixedCluster, clients: Clients, topic: str) -> None:
    clients.create_topic(topic, SPREAD)
    for partition, leader in enumerate(BROKERS):
        cluster.wait_for_partition(topic, partition, leader=leader)


def produce_and_check(cluster: MixedCluster, topic: str, prefix: bytes) -> None:
    with Load(cluster, topic, range(3), prefix=prefix) as load:
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
    check_load(cluster, load)
    check_replicas_equal(cluster, topic, range(3))


@pytest.mark.parametrize(
    "victim", [pytest.param(OURS, id="ours"), pytest.param(KAFKA, id="kafka", marks=needs("our code"))]
)
def test_topic_deleted_while_a_broker_is_down_goes_when_it_returns(
    cluster: MixedCluster, clients: Clients, victim: int
) -> None:
    """A controller keeps a deleted topic until all its replicas are gone; then the name is free."""
    topic, other = f"deleted-{victim}", f"not-deleted-{victim}"
    survivors = others_than(victim)
    create(cluster, clients, topic)
    create(cluster, clients, other)
    produce_and_check(cluster, topic, b"old")
    topic_id = cluster.znodes.topic(topic)["topic_id"]
    with Load(cluster, other, range(3)) as load:
        cluster.kill(victim)
        cluster.wait_for_partition(topic, victim, isr=survivors)
        clients.delete_topic(topic)
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        assert cluster.znodes.topic(topic), "the topic waits for the broker"
        cluster.start(victim)
        cluster.wait_until(lambda: not cluster.znodes.topic(topic))
        cluster.wait_until(lambda: not cluster.replica_path(victim, topic).exists())
        create(cluster, clients, topic)
        assert cluster.znodes.topic(topic)["topic_id"] != topic_id
        produce_and_check(cluster, topic, b"new")
    for partition in range(3):
        cluster.wait_for_partition(other, partition)
    check_load(cluster, load)
    check_replicas_equal(cluster, other, range(3))


@pytest.mark.parametrize("victim", [OURS, KAFKA], ids=["ours", "kafka"])
def test_replica_of_a_former_topic_does_not_join_a_new_one_with_its_name(
    cluster: MixedCluster, clients: Clients, victim: int
) -> None:
    """A broker that missed it all has a log with another topic id, and refuses the new topic.

    A batch of the new topic begins where the former log ends, so nothing but the topic id is in the way. The
    broker joins once an operator has removed the log.
    """
    topic = f"recreated-{victim}"
    survivors = others_than(victim)
    clients.create_topic(topic, [[*survivors, victim]])
    clients.produce(topic, 0, FORMER_RECORDS)
    cluster.wait_for_partition(topic)
    cluster.stop(victim)
    cluster.wait_for_partition(topic, isr=survivors)
    path = cluster.replica_path(victim, topic)
    former = read_batches(path)
    controller = cluster.specs[cluster.znodes.controller()]
    clients.reassign(controller.port, topic, 0, survivors)
    cluster.wait_until(lambda: cluster.znodes.topic(topic)["partitions"] == {"0": survivors})
    clients.delete_topic(topic)
    cluster.wait_until(lambda: not cluster.znodes.topic(topic))
    clients.create_topic(topic, [[*survivors, victim]])
    clients.produce(topic, 0, FORMER_RECORDS)
    with Load(cluster, topic, prefix=b"new") as load:
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        cluster.start(victim)
        load.wait_for_acknowledged(10 * RECORDS_BETWEEN_FAULTS)
        assert set(cluster.znodes.partition_state(topic)["isr"]) == set(survivors)
        assert read_batches(path) == former
        cluster.stop(victim)
        shutil.rmtree(path)
        cluster.start(victim)
        cluster.wait_for_partition(topic)
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
    check_load(cluster, load)
    check_replicas_equal(cluster, topic)
