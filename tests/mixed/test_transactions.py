"""Transactions over leaders of both kinds, with coordinators of both kinds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer
from tests.mixed.harness.coordinators import (
    TRANSACTIONS,
    name_coordinated_by,
    partition_of,
    spread_leaders,
    transaction_state,
)
from tests.mixed.harness.load import Load, check_load, read_values
from tests.mixed.harness.log_files import check_replicas_equal, dump_logs
from tests.mixed.harness.mixed_cluster import BROKERS, MixedCluster
from tests.mixed.harness.run_choice import CONTROLLER_KIND, KAFKA, KAFKA_BROKERS, OURS, others_than
from tests.support.interbroker.clients import Clients

SECONDS_MAX = 120.0
RECORDS_BETWEEN_FAULTS = 200
SUCCESSOR = 1
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


def produce(producer: Producer, topic: str, value: bytes, partition_count: int = len(ASSIGNMENT)) -> None:
    producer.begin_transaction()
    for partition in range(partition_count):
        producer.produce(topic, value, partition=partition)
    assert producer.flush(SECONDS_MAX) == 0


def check_values(cluster: MixedCluster, topic: str, values: list[bytes]) -> None:
    for partition in range(len(ASSIGNMENT)):
        assert read_values(cluster.bootstrap, topic, partition) == values
        cluster.wait_for_partition(topic, partition)
    check_replicas_equal(cluster, topic, range(len(ASSIGNMENT)))


@contextmanager
def running(action: Callable[[], object]) -> Iterator[None]:
    """Run an action in a thread; at the end, wait for it and raise its error."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as error:  # noqa: BLE001 - raised in the thread of the test
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("coordinator", [OURS, KAFKA], ids=["our-coordinator", "kafka-coordinator"])
def test_only_committed_transactions_are_read(
    cluster: MixedCluster, clients: Clients, coordinator: int
) -> None:
    topic = f"transactions-{coordinator}"
    create_topic(cluster, clients, topic)
    producer = new_producer(cluster, name_coordinated_by(cluster, TRANSACTIONS, coordinator, topic))
    for number in range(6):
        produce(producer, topic, b"%d" % number)
        (producer.abort_transaction if number % 2 else producer.commit_transaction)(SECONDS_MAX)
    check_values(cluster, topic, [b"0", b"2", b"4"])


@pytest.mark.parametrize("coordinator", [OURS, KAFKA], ids=["our-coordinator", "kafka-coordinator"])
def test_open_transaction_survives_its_coordinator(
    cluster: MixedCluster, clients: Clients, coordinator: int
) -> None:
    topic = f"open-transaction-{coordinator}"
    create_topic(cluster, clients, topic)
    name = name_coordinated_by(cluster, TRANSACTIONS, coordinator, topic)
    survivors = others_than(coordinator)
    producer = new_producer(cluster, name)
    produce(producer, topic, b"committed")
    cluster.kill(coordinator)
    cluster.wait_for_partition(TRANSACTIONS, partition_of(name), isr=survivors)
    producer.commit_transaction(SECONDS_MAX)
    produce(producer, topic, b"abandoned")
    cluster.start(coordinator)
    spread_leaders(cluster, clients, TRANSACTIONS)
    successor = new_producer(cluster, name)
    produce(successor, topic, b"next")
    successor.commit_transaction(SECONDS_MAX)
    check_values(cluster, topic, [b"committed", b"next"])


@pytest.mark.parametrize("is_committed", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize(
    ("coordinator", "leader"),
    [(OURS, KAFKA_BROKERS[0]), (KAFKA_BROKERS[0], OURS)],
    ids=["our-coordinator", "kafka-coordinator"],
)
def test_coordinator_killed_between_prepare_and_markers(
    cluster: MixedCluster, clients: Clients, coordinator: int, leader: int, is_committed: bool
) -> None:
    """The next coordinator reads the prepared transaction and writes the markers of its outcome.

    The leader of the data is paused, so that it cannot take the marker. It has no replica of the
    transaction's state, which must be written meanwhile.
    """
    topic = f"prepared-{coordinator}-{is_committed}"
    clients.create_topic(topic, [[leader, SUCCESSOR, coordinator]])
    clients.create_topic(f"{topic}-load", ASSIGNMENT)
    cluster.wait_for_partition(topic, leader=leader)
    new_producer(cluster, "first")
    spread_leaders(cluster, clients, TRANSACTIONS)
    name = name_coordinated_by(cluster, TRANSACTIONS, coordinator, topic)
    number = partition_of(name)
    replicas = cluster.znodes.topic(TRANSACTIONS)["partitions"][str(number)]
    reassign(cluster, clients, number, [coordinator, SUCCESSOR])
    try:
        kill_prepared(cluster, topic, name, coordinator, leader, is_committed)
    finally:
        cluster.restore(CONTROLLER_KIND)
        reassign(cluster, clients, number, replicas)


def kill_prepared(
    cluster: MixedCluster, topic: str, name: str, coordinator: int, leader: int, is_committed: bool
) -> None:
    """Kill the coordinator of a prepared transaction, and check the transaction's outcome."""
    number = partition_of(name)
    values = [b"first", b"second"] if is_committed else [b"first"]
    with Load(cluster, f"{topic}-load", range(3)) as load:
        producer = new_producer(cluster, name)
        produce(producer, topic, b"first", 1)
        producer.commit_transaction(SECONDS_MAX)
        produce(producer, topic, b"second", 1)
        finish = producer.commit_transaction if is_committed else producer.abort_transaction
        with running(lambda: finish(2 * SECONDS_MAX)):
            with cluster.paused(leader):
                prepared = "PrepareCommit" if is_committed else "PrepareAbort"
                cluster.wait_until(lambda: transaction_state(cluster, coordinator, name) == prepared)
                cluster.kill(coordinator)
            cluster.wait_for_partition(TRANSACTIONS, number, leader=SUCCESSOR, isr=[SUCCESSOR])
            cluster.wait_until(lambda: read_values(cluster.bootstrap, topic) == values)
            load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
            cluster.start(coordinator)
        produce(producer, topic, b"third", 1)
        producer.commit_transaction(SECONDS_MAX)
    cluster.wait_for_partition(topic)
    assert read_values(cluster.bootstrap, topic) == [*values, b"third"]
    check_replicas_equal(cluster, topic)
    check_markers(cluster, topic, ["COMMIT", "COMMIT" if is_committed else "ABORT", "COMMIT"])
    for partition in range(3):
        cluster.wait_for_partition(load.topic, partition)
    check_load(cluster, load)


def reassign(cluster: MixedCluster, clients: Clients, partition: int, replicas: list[int]) -> None:
    """Move a partition of the transactions' states."""
    controller = cluster.specs[cluster.znodes.controller()]
    clients.reassign(controller.port, TRANSACTIONS, partition, replicas)
    cluster.wait_for_partition(TRANSACTIONS, partition, isr=replicas)
    cluster.wait_until(
        lambda: cluster.znodes.topic(TRANSACTIONS)["partitions"][str(partition)] == list(replicas)
    )


def check_markers(cluster: MixedCluster, topic: str, outcomes: list[str]) -> None:
    """Check the outcome of each transaction.

    A marker may be there twice: the request of a coordinator that was killed since is still in the socket of
    the paused leader.
    """
    path = cluster.replica_path(OURS, topic)
    markers: list[set[str]] = []
    for line in dump_logs(cluster, [path])[path]:
        if "payload" in line:
            markers.append(set())
        elif "endTxnMarker" in line:
            markers[-1].add(line.split("endTxnMarker: ")[1].split()[0])
    assert markers == [{outcome} for outcome in outcomes]
