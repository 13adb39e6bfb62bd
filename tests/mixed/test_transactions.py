"""Transactions over leaders of both kinds, with coordinators of both kinds."""

import pytest
from confluent_kafka import Producer
from tests.mixed.coordinators import TRANSACTIONS, name_coordinated_by, partition_of, spread_leaders
from tests.mixed.load import read_values
from tests.mixed.log_files import log_bytes
from tests.mixed.mixed_cluster import BROKERS, KAFKA, OURS, MixedCluster
from tests.support.interbroker.clients import Clients

SECONDS_MAX = 30.0
ASSIGNMENT = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]


def create_topic(cluster: MixedCluster, clients: Clients, topic: str) -> None:
    """Create a topic with a partition led by each broker, and the topic of the transactions' states."""
    clients.create_topic(topic, ASSIGNMENT)
    for partition, leader in enumerate(BROKERS):
        cluster.wait_for_partition(topic, partition, leader=leader)
    new_producer(cluster, "first")
    spread_leaders(cluster, clients, TRANSACTIONS)


def new_producer(cluster: MixedCluster, transactional_id: str) -> Producer:
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "transactional.id": transactional_id,
        "transaction.timeout.ms": 60_000,
        "log_level": 2,
    }
    producer = Producer(settings)
    producer.init_transactions(SECONDS_MAX)
    return producer


def produce_everywhere(producer: Producer, topic: str, value: bytes) -> None:
    producer.begin_transaction()
    for partition in range(len(ASSIGNMENT)):
        producer.produce(topic, value, partition=partition)
    assert producer.flush(SECONDS_MAX) == 0


def check_values(cluster: MixedCluster, topic: str, values: list[bytes]) -> None:
    for partition in range(len(ASSIGNMENT)):
        assert read_values(cluster.bootstrap, topic, partition) == values
        cluster.wait_for_partition(topic, partition)
        logs = {broker: log_bytes(cluster, broker, topic, partition) for broker in BROKERS}
        assert logs[OURS] == logs[0] == logs[1]


@pytest.mark.parametrize("coordinator", [OURS, KAFKA[0]], ids=["our-coordinator", "kafka-coordinator"])
def test_only_committed_transactions_are_read(
    cluster: MixedCluster, clients: Clients, coordinator: int
) -> None:
    topic = f"transactions-{coordinator}"
    create_topic(cluster, clients, topic)
    producer = new_producer(cluster, name_coordinated_by(cluster, TRANSACTIONS, coordinator, topic))
    for number in range(6):
        produce_everywhere(producer, topic, b"%d" % number)
        (producer.abort_transaction if number % 2 else producer.commit_transaction)(SECONDS_MAX)
    check_values(cluster, topic, [b"0", b"2", b"4"])


@pytest.mark.parametrize("coordinator", [OURS, 1], ids=["our-coordinator", "kafka-coordinator"])
def test_open_transaction_survives_its_coordinator(
    cluster: MixedCluster, clients: Clients, coordinator: int
) -> None:
    topic = f"open-transaction-{coordinator}"
    create_topic(cluster, clients, topic)
    name = name_coordinated_by(cluster, TRANSACTIONS, coordinator, topic)
    survivors = [broker for broker in BROKERS if broker != coordinator]
    producer = new_producer(cluster, name)
    produce_everywhere(producer, topic, b"committed")
    cluster.kill(coordinator)
    cluster.wait_for_partition(TRANSACTIONS, partition_of(name), isr=survivors)
    producer.commit_transaction(SECONDS_MAX)
    produce_everywhere(producer, topic, b"abandoned")
    cluster.start(coordinator)
    spread_leaders(cluster, clients, TRANSACTIONS)
    successor = new_producer(cluster, name)
    produce_everywhere(successor, topic, b"next")
    successor.commit_transaction(SECONDS_MAX)
    check_values(cluster, topic, [b"committed", b"next"])
