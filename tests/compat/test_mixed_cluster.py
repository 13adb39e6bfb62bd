"""Our broker as a member of a cluster on ZooKeeper whose controller is an Apache Kafka 3.9 broker.

Kafka's jars come from Maven Central, so `make mixed-cluster` runs these tests and nothing else does.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bench.peers.server_process import ServerProcess
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from tests.support.apache_kafka import fetched_jars
from tests.support.broker import Broker, broker_answers, free_port

from odradek.system.local_zookeeper import LocalZooKeeper

KAFKA_VERSION = "3.9.1"
KAFKA_ID, OUR_ID = 0, 1
SESSION_TIMEOUT_MS = 6_000
WAIT_SECONDS_MAX = 60
ANY_PARTITION = -1
JAVA = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx300m")
SHARED = {
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "default.replication.factor": "2",
    "min.insync.replicas": "1",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "2",
}
pytestmark = pytest.mark.timeout(300)


class MixedCluster:
    """ZooKeeper, a Kafka broker, which is the controller, and ours."""

    def __init__(self, home: Path, zookeeper: str, jars: Path) -> None:
        self._admins: dict[str, AdminClient] = {}
        self.kafka_bootstrap = f"127.0.0.1:{free_port()}"
        settings = {
            "broker.id": str(KAFKA_ID),
            "zookeeper.connect": zookeeper,
            "listeners": f"PLAINTEXT://{self.kafka_bootstrap}",
            "log.dirs": str(home / "kafka"),
            **SHARED,
        }
        properties = home / "kafka.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        command = [*JAVA, "-cp", f"{jars}/*", "kafka.Kafka", str(properties)]
        self._kafka = ServerProcess(command, home / "kafka.out", None)
        self.wait_until(lambda: broker_answers(self.kafka_bootstrap))
        self.ours = Broker(
            home / "ours", {"broker.id": str(OUR_ID), "zookeeper.connect": zookeeper, **SHARED}
        )
        self.start_ours()

    def start_ours(self) -> None:
        """Start our broker; wait until the controller has announced it."""
        self.ours.start()
        self.wait_until(lambda: self.live_brokers() == {KAFKA_ID, OUR_ID})

    def stop(self) -> None:
        if self.ours.is_running:
            self.ours.kill_if_running()
        self._kafka.kill()

    def wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while not condition():
            self._kafka.must_live()
            assert time.monotonic() < deadline, f"not reached:\n{self.ours.output()}"
            time.sleep(0.1)

    def admin(self, bootstrap: str | None = None) -> AdminClient:
        """Return the client of a bootstrap server. It is kept: its futures end with it."""
        server = bootstrap or self.kafka_bootstrap
        if server not in self._admins:
            self._admins[server] = AdminClient({"bootstrap.servers": server})
        return self._admins[server]

    def _metadata(self, topic: str | None = None) -> ClusterMetadata:
        """Return Kafka's metadata. A new client asks no other broker, which may be paused."""
        client = AdminClient({"bootstrap.servers": self.kafka_bootstrap})
        return client.list_topics(topic, timeout=10) if topic else client.list_topics(timeout=10)

    def live_brokers(self) -> set[int]:
        return set(self._metadata().brokers)

    def create(self, topic: str, bootstrap: str) -> None:
        """Create a topic with one partition led by each broker."""
        new_topic = NewTopic(topic, 2, replica_assignment=[[KAFKA_ID, OUR_ID], [OUR_ID, KAFKA_ID]])
        self.admin(bootstrap).create_topics([new_topic])[topic].result(WAIT_SECONDS_MAX)
        self.wait_until(lambda: self.leaders(topic) == [KAFKA_ID, OUR_ID])

    def leaders(self, topic: str) -> list[int]:
        partitions = self._metadata(topic).topics[topic].partitions
        return [partitions[number].leader for number in sorted(partitions)]

    def isrs(self, topic: str) -> list[set[int]]:
        partitions = self._metadata(topic).topics[topic].partitions
        return [set(partitions[number].isrs) for number in sorted(partitions)]


def produce(bootstrap: str, topic: str, *values: bytes, partition: int | None = None) -> None:
    """Send records with acks=all, and check that each is acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "message.timeout.ms": 30_000})
    errors: list[KafkaError | None] = []
    number = ANY_PARTITION if partition is None else partition
    for value in values:
        producer.produce(topic, value, partition=number, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(WAIT_SECONDS_MAX) == 0
    assert errors == [None] * len(values)


def consume(bootstrap: str, topic: str, count: int, group: str) -> set[bytes | None]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        values: set[bytes | None] = set()
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while len(values) < count and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                values.add(message.value())
        return values
    finally:
        consumer.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    home = tmp_path_factory.mktemp("mixed")
    jars = fetched_jars(KAFKA_VERSION)
    with LocalZooKeeper(home / "zookeeper", os.environ, is_durable=False) as zookeeper:
        mixed = MixedCluster(home, zookeeper.connect_string, jars)
        try:
            yield mixed
        finally:
            mixed.stop()


def test_each_broker_leads_and_follows(cluster: MixedCluster) -> None:
    cluster.create("orders", cluster.ours.bootstrap)
    for partition in (0, 1):
        produce(cluster.ours.bootstrap, "orders", b"%d" % partition, partition=partition)
    assert cluster.isrs("orders") == [{KAFKA_ID, OUR_ID}] * 2
    for number, bootstrap in enumerate((cluster.kafka_bootstrap, cluster.ours.bootstrap)):
        assert consume(bootstrap, "orders", 2, f"readers-{number}") == {b"0", b"1"}


def test_our_broker_creates_topics_through_the_controller(cluster: MixedCluster) -> None:
    produce(cluster.ours.bootstrap, "auto-created", b"a")
    assert cluster.isrs("auto-created") == [{KAFKA_ID, OUR_ID}]


def test_config_written_by_kafka_is_applied_by_ours(cluster: MixedCluster) -> None:
    cluster.create("configured", cluster.kafka_bootstrap)
    entry = ConfigEntry("max.message.bytes", "600", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource("topic", "configured", incremental_configs=[entry])
    (future,) = cluster.admin().incremental_alter_configs([resource]).values()
    future.result(WAIT_SECONDS_MAX)

    def shown() -> str:
        asked = ConfigResource("topic", "configured")
        (answer,) = cluster.admin(cluster.ours.bootstrap).describe_configs([asked]).values()
        value: str = answer.result(WAIT_SECONDS_MAX)["max.message.bytes"].value
        return value

    cluster.wait_until(lambda: shown() == "600")


def test_broker_whose_session_expired_joins_again(cluster: MixedCluster) -> None:
    cluster.create("paused", cluster.kafka_bootstrap)
    produce(cluster.kafka_bootstrap, "paused", b"before", partition=1)
    os.kill(cluster.ours.pid, signal.SIGSTOP)
    try:
        cluster.wait_until(lambda: cluster.leaders("paused") == [KAFKA_ID, KAFKA_ID])
        produce(cluster.kafka_bootstrap, "paused", b"meanwhile", partition=1)
    finally:
        os.kill(cluster.ours.pid, signal.SIGCONT)
    cluster.wait_until(lambda: cluster.isrs("paused") == [{KAFKA_ID, OUR_ID}] * 2)
    produce(cluster.kafka_bootstrap, "paused", b"after", partition=1)
    assert consume(cluster.ours.bootstrap, "paused", 3, "after-pause") == {b"before", b"meanwhile", b"after"}


def test_stop_moves_leaderships_first_and_a_restart_catches_up(cluster: MixedCluster) -> None:
    cluster.create("restarted", cluster.kafka_bootstrap)
    produce(cluster.kafka_bootstrap, "restarted", b"before", partition=1)
    cluster.ours.stop()
    assert cluster.leaders("restarted") == [KAFKA_ID, KAFKA_ID]
    produce(cluster.kafka_bootstrap, "restarted", b"meanwhile", partition=1)
    cluster.start_ours()
    cluster.wait_until(lambda: cluster.isrs("restarted") == [{KAFKA_ID, OUR_ID}] * 2)
    assert consume(cluster.ours.bootstrap, "restarted", 2, "after-restart") == {b"before", b"meanwhile"}
