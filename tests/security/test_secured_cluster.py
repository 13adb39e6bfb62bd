"""Brokers that are secured from each other: SASL_SSL between them, ACLs on, ZooKeeper with its digest."""

from __future__ import annotations

import itertools
import re
import socket
import ssl
from collections.abc import Iterator
from functools import partial

import pytest
from tests.cluster_faults.harness.fault_cluster import BROKERS, FaultCluster
from tests.cluster_faults.harness.networks import Loopback
from tests.cluster_faults.harness.secured import LISTENER

from odradek import Admin, Consumer, NewTopic, Producer, TopicPartition

pytestmark = pytest.mark.timeout(300)

TOPIC = "letters"
AUTHENTICATED = re.compile(rf"audit\.authenticated .*principal=User:broker .*listener={LISTENER} ")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultCluster]:
    cluster = FaultCluster(tmp_path_factory.mktemp("secured-cluster"), Loopback(), is_secured=True)
    try:
        cluster.start(*BROKERS)
        yield cluster
    finally:
        cluster.close()


def has_accepted(cluster: FaultCluster, broker: int) -> bool:
    """Return whether another broker has authenticated to this one."""
    return AUTHENTICATED.search(cluster.output(broker).read_text(errors="replace")) is not None


def send(cluster: FaultCluster, first: int, count: int) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        values = [str(number).encode() for number in range(first, first + count)]
        assert producer.send_many(TOPIC, values, partition=0).result(timeout_s=60) == count


def test_records_are_replicated_and_survive_their_leader(cluster: FaultCluster) -> None:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(TOPIC, partitions=1, replication_factor=3)])
        (partition,) = admin.describe_topics([TOPIC])[TOPIC].partitions
    send(cluster, 0, 100)
    leader = partition.leader
    cluster.kill(leader)
    send(cluster, 100, 100)
    with Consumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(TOPIC, 0)])
        values = [int(record.value or b"") for record in itertools.islice(consumer, 200)]
    assert values == list(range(200))
    cluster.start(leader)
    # All three have led or followed, and each has accepted another one.
    for broker in BROKERS:
        cluster.wait_until(partial(has_accepted, cluster, broker), f"broker {broker} must accept another one")


def test_listener_between_brokers_speaks_tls_alone(cluster: FaultCluster) -> None:
    context = ssl.create_default_context(cafile=str(cluster.home / "authority.pem"))
    address = (cluster.network.host(1), cluster.broker_port(1))
    with (
        socket.create_connection(address) as plain,
        context.wrap_socket(plain, server_hostname=address[0]) as connection,
    ):
        assert connection.version() == "TLSv1.3"
