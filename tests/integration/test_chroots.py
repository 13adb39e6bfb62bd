"""Two clusters under two chroots of one ZooKeeper, and data that belongs to another cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ClusterMetadata, NewTopic
from kazoo.client import KazooClient
from tests.support.broker import IS_FOREIGN, Broker
from tests.support.kio_requests import stored_batches
from tests.support.zookeeper import new_chroot

from odradek.system.local_zookeeper import LocalZooKeeper

pytestmark = pytest.mark.skipif(IS_FOREIGN, reason="files and messages are specific to odradek")

BROKER_IDS = (1, 2)
SECONDS_MAX = 30
TOPIC = "letters"

Start = Callable[..., Broker]


class ChrootCluster:
    """Brokers 1 and 2 below a chroot."""

    def __init__(self, zookeeper: LocalZooKeeper, start_broker: Start) -> None:
        self.chroot = new_chroot()
        self.brokers = [
            start_broker(settings_of(zookeeper, self.chroot, broker_id)) for broker_id in BROKER_IDS
        ]
        self.bootstrap = ",".join(broker.bootstrap for broker in self.brokers)
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})

    @property
    def metadata(self) -> ClusterMetadata:
        return self.admin.list_topics(timeout=SECONDS_MAX)

    def create_topic(self) -> None:
        assignment = [list(BROKER_IDS)]
        self.admin.create_topics([NewTopic(TOPIC, len(assignment), replica_assignment=assignment)])[
            TOPIC
        ].result(SECONDS_MAX)

    def write(self, value: bytes) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all"})
        producer.produce(TOPIC, value, partition=0)
        assert producer.flush(SECONDS_MAX) == 0


def settings_of(zookeeper: LocalZooKeeper, chroot: str, broker_id: int) -> dict[str, str]:
    return {
        "broker.id": str(broker_id),
        "zookeeper.connect": f"{zookeeper.connect_string}{chroot}",
        "min.insync.replicas": "2",
    }


@pytest.fixture
def raw(zookeeper: LocalZooKeeper) -> Iterator[KazooClient]:
    client = KazooClient(zookeeper.connect_string)
    client.start()
    yield client
    client.stop()
    client.close()


def test_clusters_under_two_chroots_share_nothing(
    zookeeper: LocalZooKeeper, start_broker: Start, raw: KazooClient
) -> None:
    first, second = (ChrootCluster(zookeeper, start_broker) for _ in range(2))
    for cluster in (first, second):
        ports = {broker.port for broker in cluster.brokers}
        assert {broker.port for broker in cluster.metadata.brokers.values()} == ports
    assert first.metadata.cluster_id != second.metadata.cluster_id
    first.create_topic()
    assert TOPIC not in second.metadata.topics
    second.create_topic()
    first.write(b"of the first")
    second.write(b"of the second")
    for cluster, value in ((first, b"of the first"), (second, b"of the second")):
        batches = stored_batches(cluster.bootstrap, TOPIC)
        assert value in batches
        assert len(batches) < 2 * (61 + len(value) + 10)
    states = [raw.get(f"{cluster.chroot}/controller")[1].czxid for cluster in (first, second)]
    for broker in first.brokers:
        broker.stop()
    assert raw.exists(f"{first.chroot}/controller") is None
    assert raw.get(f"{second.chroot}/controller")[1].czxid == states[1]
    second.write(b"while the first is down")
    assert not raw.exists("/brokers")
    assert not raw.exists("/controller")


def test_data_of_another_cluster_prevents_startup(
    zookeeper: LocalZooKeeper, start_broker: Start, raw: KazooClient
) -> None:
    own, other, empty = new_chroot(), new_chroot(), new_chroot()
    broker = start_broker(settings_of(zookeeper, own, 1))
    owner = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=SECONDS_MAX).cluster_id
    broker.stop()
    keeper = start_broker(settings_of(zookeeper, other, 2))
    keeper_id = (
        AdminClient({"bootstrap.servers": keeper.bootstrap}).list_topics(timeout=SECONDS_MAX).cluster_id
    )
    for chroot, reason in ((other, f"the store to cluster {keeper_id}"), (empty, "but the store is empty")):
        broker.settings |= settings_of(zookeeper, chroot, 1)
        line = startup_error(broker)
        assert f"the data belongs to cluster {owner}, {reason}" in line
        assert "meta.properties" in line
        assert not raw.exists(f"{chroot}/brokers/ids/1")
    assert not raw.exists(f"{empty}/cluster/id")
    broker.settings |= settings_of(zookeeper, own, 1)
    broker.start()


def startup_error(broker: Broker) -> str:
    """Run a broker that must fail, with one line, and leave its files as they are; return that line."""
    data = broker.directory / "data"
    before = content(data)
    status, output = broker.run_to_exit()
    assert status == 1, output
    assert content(data) == before
    (line,) = [line for line in output.splitlines() if "belongs to cluster" in line]
    assert "Traceback" not in output
    return line


def content(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
