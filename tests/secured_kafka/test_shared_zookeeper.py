"""Our broker and Kafka's in one cluster: what Kafka's tools change on one counts on the other."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from tests.secured_kafka.conftest import ADMIN
from tests.secured_kafka.kafka_tools import ACLS, CONFIGS, DELEGATION_TOKENS, TOPICS, Tools, sorted_acls
from tests.secured_kafka.secured_kafka import AUTHORIZER_SETTINGS, SHARED_SETTINGS, SecuredKafka
from tests.security.clients import MESSAGE
from tests.support.secured_broker import USERS, SecuredBroker, SecuredListeners, add_scram_users

from odradek import Admin, AuthorizationFailed, NewTopic, Producer

WAIT_SECONDS_MAX = 20.0
PAIRS = pytest.mark.parametrize("changed", ["kafka", "ours"])


class SharedCluster:
    """Broker 0 is Kafka's, broker 1 ours; the first that starts is the controller."""

    def __init__(self, kafka: SecuredKafka, ours: SecuredBroker, classpath: str) -> None:
        self._brokers: dict[str, SecuredListeners] = {"kafka": kafka, "ours": ours}
        self._tools = {name: Tools(broker, classpath) for name, broker in self._brokers.items()}

    def changed_and_other(self, changed: str) -> tuple[Tools, Tools]:
        """Return tools on the broker to change, and on the other one."""
        return self._tools[changed], self._tools["ours" if changed == "kafka" else "kafka"]

    def create_topic(self, leader: Tools) -> str:
        """Create a topic whose only replica is on that broker."""
        name = f"topic-{uuid.uuid4()}"
        broker = 0 if leader is self._tools["kafka"] else 1
        with Admin(bootstrap_servers=self._brokers["kafka"].bootstrap("PLAINTEXT")) as admin:
            admin.create_topics([NewTopic(name, assignments={0: [broker]})])
        return name


@pytest.fixture(scope="module", params=["kafka", "ours"], ids=lambda name: f"controller-{name}")
def cluster(
    request: pytest.FixtureRequest, classpath: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedCluster]:
    home = tmp_path_factory.mktemp("shared")
    kafka = SecuredKafka(home / "kafka", classpath)
    shared = {"zookeeper.connect": kafka.zookeeper.connect_string, "broker.id": "1"}
    ours = SecuredBroker(home / "ours", AUTHORIZER_SETTINGS | SHARED_SETTINGS | shared)
    try:
        for broker in (kafka, ours) if request.param == "kafka" else (ours, kafka):
            broker.start()
        add_scram_users(kafka, *USERS, ADMIN)
        yield SharedCluster(kafka, ours, classpath)
        ours.stop()
    finally:
        kafka.stop()


def may_write(broker: Tools, topic: str) -> bool:
    options = broker.listeners.options("SASL_SSL", "SCRAM-SHA-256")
    try:
        with Producer(options, max_block_ms=15_000) as producer:
            producer.send(topic, MESSAGE).result(20)
    except AuthorizationFailed:
        return False
    return True


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, "must hold in time"
        time.sleep(0.1)


@PAIRS
def test_acls(cluster: SharedCluster, changed: str) -> None:
    tools, other = cluster.changed_and_other(changed)
    topic = cluster.create_topic(leader=other)
    assert may_write(other, topic)
    everybody = ("--allow-principal", "User:*", "--operation", "Write", "--topic", topic[:20])
    prefixed = ("--resource-pattern-type", "prefixed")
    denied = ("--deny-principal", "User:alice", "--operation", "Write", "--topic", topic)
    tools.run(ACLS, "--add", *everybody, *prefixed)
    tools.run(ACLS, "--add", *denied)
    until(lambda: not may_write(other, topic))
    listed = [sorted_acls(each.run(ACLS, "--list")) for each in (tools, other)]
    assert listed[0] == listed[1]
    assert listed[0].count("(principal=User:") == 2
    tools.run(ACLS, "--remove", "--force", *denied)
    until(lambda: may_write(other, topic))
    tools.run(ACLS, "--remove", "--force", *everybody, *prefixed)
    until(lambda: not other.run(ACLS, "--list").strip())


@PAIRS
def test_scram_users(cluster: SharedCluster, changed: str) -> None:
    tools, other = cluster.changed_and_other(changed)
    carol = ("--entity-type", "users", "--entity-name", "carol")
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        tools.run(CONFIGS, *carol, "--alter", "--add-config", f"{mechanism}=[password=carol-secret]")
        other.run(TOPICS, "--list", "--topic", "absent", user="carol", mechanism=mechanism)
        tools.run(CONFIGS, *carol, "--alter", "--delete-config", mechanism)
        other.run(TOPICS, "--list", "--topic", "absent", user="carol", mechanism=mechanism, status=1)


@PAIRS
def test_quotas(cluster: SharedCluster, changed: str) -> None:
    tools, other = cluster.changed_and_other(changed)
    entities = {
        ("--entity-type", "users", "--entity-name", "dave"): "producer_byte_rate=1000000",
        ("--entity-type", "clients", "--entity-default"): "request_percentage=150",
        ("--entity-type", "ips", "--entity-name", "10.1.2.3"): "connection_creation_rate=50",
    }
    for entity, config in entities.items():
        tools.run(CONFIGS, *entity, "--alter", "--add-config", config)
        described = other.run(CONFIGS, *entity, "--describe")
        assert f"{config}.0" in described
        assert described == tools.run(CONFIGS, *entity, "--describe")
        tools.run(CONFIGS, *entity, "--alter", "--delete-config", config.partition("=")[0])
        assert not other.run(CONFIGS, *entity, "--describe").strip()


@PAIRS
def test_delegation_tokens(cluster: SharedCluster, changed: str) -> None:
    tools, other = cluster.changed_and_other(changed)
    output = tools.run(DELEGATION_TOKENS, "--create", "--max-life-time-period", "-1", user="alice")
    row = re.search(r"^([\w-]{22})\s+([\w+/]{86}==)", output, re.MULTILINE)
    assert row is not None, output
    token, hmac = row.groups()
    listing = ("--list", "--topic", "absent")
    other.run(TOPICS, *listing, user=token, password=hmac, is_token=True)
    tools.run(DELEGATION_TOKENS, "--expire", "--hmac", hmac, "--expiry-time-period", "-1", user="alice")
    other.run(TOPICS, *listing, user=token, password=hmac, is_token=True, status=1)
