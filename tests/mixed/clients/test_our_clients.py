"""Our clients on a cluster of both kinds of brokers: blocking and asyncio, through faults of leaders."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from tests.mixed.harness.coordinators import OFFSETS, TRANSACTIONS, partition_of
from tests.mixed.harness.mixed_cluster import MixedCluster
from tests.mixed.harness.run_choice import KAFKA, KAFKA_BROKERS, OURS, others_than
from tests.support.interbroker.clients import Clients

import odradek
from odradek import TopicPartition, aio

RECORDS_BETWEEN_FAULTS = 200
SECONDS_MAX = 180.0
PAUSE_SECONDS = 0.005
POLL_SECONDS = 0.2
OPTIONS = {"request_timeout_ms": 10_000}
FOLLOWER_READS = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}


class Traffic:
    """A producer and a consumer of one partition in threads of their own; each keeps what it has seen."""

    def __init__(self, bootstrap: str, partition: TopicPartition) -> None:
        self.acknowledged: list[int] = []
        """Offsets of sent records, in the order in which they were sent."""
        self.read: list[tuple[int, bytes | None]] = []
        """Offsets and values."""
        self.failures: list[BaseException] = []
        self.ends_writing = threading.Event()
        self.ends_reading = threading.Event()
        self._options: dict[str, Any] = {"bootstrap_servers": bootstrap, **OPTIONS}
        self._partition = partition
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,)) for work in (self._write, self._read)
        ]

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - the test reports it
            self.failures.append(error)

    def _write(self) -> None:
        raise NotImplementedError

    def _read(self) -> None:
        raise NotImplementedError

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """End the producer, then the consumer once it has read everything."""
        self.ends_writing.set()
        self._threads[0].join(SECONDS_MAX)
        self._wait_until(lambda: len(self.read) >= len(self.acknowledged))
        self.stop()

    def stop(self) -> None:
        self.ends_writing.set()
        self.ends_reading.set()
        for thread in self._threads:
            thread.join(SECONDS_MAX)

    def wait_for_records(self, records: int = RECORDS_BETWEEN_FAULTS) -> None:
        """Wait until so many more records are acknowledged, and so many more are read."""
        goals = len(self.acknowledged) + records, len(self.read) + records
        self._wait_until(lambda: len(self.acknowledged) >= goals[0] and len(self.read) >= goals[1])

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while not condition():
            assert self.failures == []
            counts = len(self.acknowledged), len(self.read)
            assert time.monotonic() < deadline, f"records acknowledged and read: {counts}"
            time.sleep(PAUSE_SECONDS)

    def check(self) -> None:
        """Check that each sent record was written once, in order, and read once."""
        assert self.failures == []
        assert self.acknowledged == list(range(len(self.acknowledged)))
        assert self.read == [(offset, b"%d" % offset) for offset in self.acknowledged]


class BlockingTraffic(Traffic):
    def _write(self) -> None:
        with odradek.Producer(**self._options) as producer:
            deliveries = []
            for number in count():
                topic, partition = self._partition
                deliveries.append(producer.send(topic, b"%d" % number, partition=partition))
                while deliveries and deliveries[0].done():
                    self.acknowledged.append(deliveries.pop(0).result().offset)
                if self.ends_writing.wait(PAUSE_SECONDS):
                    break
            self.acknowledged += [delivery.result(SECONDS_MAX).offset for delivery in deliveries]

    def _read(self) -> None:
        with odradek.Consumer(**self._options, auto_offset_reset="earliest") as consumer:
            consumer.assign([self._partition])
            while not self.ends_reading.is_set():
                self.read += [(record.offset, record.value) for record in consumer.poll(POLL_SECONDS)]


class AsyncioTraffic(Traffic):
    def _write(self) -> None:
        async def write() -> None:
            async with aio.Producer(**self._options) as producer:
                deliveries = []
                for number in count():
                    topic, partition = self._partition
                    deliveries.append(await producer.send(topic, b"%d" % number, partition=partition))
                    while deliveries and deliveries[0].done():
                        self.acknowledged.append((await deliveries.pop(0)).offset)
                    await asyncio.sleep(PAUSE_SECONDS)
                    if self.ends_writing.is_set():
                        break
                self.acknowledged += [(await delivery).offset for delivery in deliveries]

        asyncio.run(write())

    def _read(self) -> None:
        async def read() -> None:
            async with aio.Consumer(**self._options, auto_offset_reset="earliest") as consumer:
                consumer.assign([self._partition])
                while not self.ends_reading.is_set():
                    records = await consumer.poll(POLL_SECONDS)
                    self.read += [(record.offset, record.value) for record in records]

        asyncio.run(read())


@contextmanager
def running(traffic: Traffic) -> Iterator[Traffic]:
    """Run traffic; at the end all of it must have arrived."""
    traffic.start()
    try:
        yield traffic
        traffic.join()
    finally:
        traffic.stop()
    traffic.check()


KINDS = pytest.mark.parametrize("kind", [BlockingTraffic, AsyncioTraffic], ids=["blocking", "asyncio"])
LEADERS = pytest.mark.parametrize("leader", [OURS, KAFKA], ids=["ours", "kafka"])


@KINDS
@LEADERS
def test_records_are_written_and_read_once_through_kill_stop_and_election(
    cluster: MixedCluster, clients: Clients, kind: type[Traffic], leader: int
) -> None:
    topic = f"our-clients-{kind.__name__}-{leader}"
    survivors = others_than(leader)
    clients.create_topic(topic, [[leader, *survivors]])
    cluster.wait_for_partition(topic, leader=leader)
    with running(kind(cluster.bootstrap, TopicPartition(topic, 0))) as traffic:
        traffic.wait_for_records()
        for end in (cluster.kill, cluster.stop):
            end(leader)
            cluster.wait_for_partition(topic, leader=survivors[0], isr=survivors)
            traffic.wait_for_records()
            cluster.start(leader)
            cluster.wait_for_partition(topic, leader=survivors[0])
            clients.elect_preferred([(topic, 0)])
            cluster.wait_for_partition(topic, leader=leader)
            traffic.wait_for_records()


def test_group_keeps_its_commits_when_its_coordinator_is_killed(
    cluster: MixedCluster, clients: Clients
) -> None:
    topic, group = "our-group", "our-group"
    clients.create_topic(topic, [[1, 0, OURS]])
    cluster.wait_for_partition(topic, leader=1)
    options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap, **OPTIONS}
    partition = TopicPartition(topic, 0)
    clients.produce(topic, 0, 100)
    with odradek.Consumer(**options, group_id=group, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        assert [record.offset for record in read(consumer, 100)] == list(range(100))
        consumer.commit()
        coordinator = coordinator_of(cluster, OFFSETS, group)
        cluster.kill(coordinator)
        try:
            clients.produce(topic, 0, 100)
            assert [record.offset for record in read(consumer, 100)] == list(range(100, 200))
            consumer.commit()
            offset = consumer.committed(partition)[partition]
            assert offset is not None
            assert offset.offset == 200
        finally:
            cluster.start(coordinator)


def test_transactions_are_committed_once_when_their_coordinator_is_killed(
    cluster: MixedCluster, clients: Clients
) -> None:
    topic, transactional_id = "our-transactions", "our-transactions"
    clients.create_topic(topic, [[0, 1, OURS]])
    cluster.wait_for_partition(topic)
    options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap, **OPTIONS}
    committed: list[bytes] = []
    killed: list[int] = []
    with odradek.Producer(**options, transactional_id=transactional_id) as producer:
        producer.init_transactions()
        for number in range(30):
            producer.begin_transaction()
            for part in range(3):
                producer.send(topic, b"%d %d" % (number, part), partition=0)
            if number == 10:
                killed.append(coordinator_of(cluster, TRANSACTIONS, transactional_id))
                cluster.kill(killed[0])
            if number % 3 == 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
                committed += [b"%d %d" % (number, part) for part in range(3)]
    cluster.start(killed[0])
    cluster.wait_for_partition(topic)
    with odradek.Consumer(
        **options, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert [record.value for record in read(consumer, len(committed))] == committed


def test_consumer_reads_from_the_follower_in_its_rack(cluster: MixedCluster, clients: Clients) -> None:
    for broker, spec in cluster.specs.items():
        spec.settings = {"broker.rack": f"rack-{broker}", **FOLLOWER_READS}
        cluster.restart(broker)
    options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap, **OPTIONS}
    for leader, follower in ((KAFKA_BROKERS[0], OURS), (OURS, KAFKA)):
        topic = f"our-rack-{leader}"
        clients.create_topic(topic, [[leader, follower]])
        cluster.wait_for_partition(topic, leader=leader, isr=[leader, follower])
        for _ in range(5):
            clients.produce(topic, 0, 100)
        with odradek.Consumer(
            **options,
            client_rack=f"rack-{follower}",
            auto_offset_reset="earliest",
            max_poll_records=10,
            max_partition_fetch_bytes=1,  # one batch in each response
        ) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            records = read(consumer, 10)
            # Only the follower can answer now. It may not know yet that the last hundred are committed.
            with cluster.paused(leader):
                records += read(consumer, 390)
        assert [record.offset for record in records] == list(range(400))


def read(consumer: odradek.Consumer, records: int) -> list[Any]:
    """Return so many records."""
    received: list[Any] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(received) < records:
        assert time.monotonic() < deadline, f"{records} records must come, got {len(received)}"
        received += consumer.poll(1.0)
    return received


def coordinator_of(cluster: MixedCluster, topic: str, name: str) -> int:
    return cluster.metadata(OURS, topic).partitions[topic, partition_of(name)].leader
