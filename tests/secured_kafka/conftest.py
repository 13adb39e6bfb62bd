"""Fixtures: for each module a secured Apache Kafka and our secured broker; Kafka's tools on both.

A module ends its Kafka before the next one starts its own: one JVM with a broker at a time.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from tests.mixed.harness.kafka_tools import fetched_classpath
from tests.secured_kafka.kafka_tools import ToolPair, Tools
from tests.secured_kafka.secured_kafka import AUTHORIZER_SETTINGS, SHARED_SETTINGS, SecuredKafka
from tests.support.secured_broker import USERS, SecuredBroker, add_scram_users

from odradek import AclBindingFilter, Admin

KAFKA_VERSION = "3.9.1"
ADMIN = "admin"
"""A super user; it has SCRAM credentials only."""


@pytest.fixture(scope="session")
def classpath() -> str:
    return fetched_classpath(KAFKA_VERSION)


@pytest.fixture(scope="module")
def kafka(classpath: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    broker = SecuredKafka(tmp_path_factory.mktemp("secured-kafka"), classpath)
    try:
        broker.start()
        add_scram_users(broker, *USERS, ADMIN)
        yield broker
    finally:
        broker.stop()


@pytest.fixture
def topic(kafka: SecuredKafka) -> str:
    """A new topic on Kafka."""
    name = f"topic-{uuid.uuid4()}"
    with Admin(bootstrap_servers=kafka.bootstrap("PLAINTEXT")) as admin:
        admin.create_topics([name])
    return name


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """Our broker with the same users and authorizer."""
    settings = AUTHORIZER_SETTINGS | SHARED_SETTINGS
    broker = SecuredBroker(tmp_path_factory.mktemp("secured-odradek"), settings).start()
    add_scram_users(broker, *USERS, ADMIN)
    yield broker
    broker.stop()


@pytest.fixture
def pair(ours: SecuredBroker, kafka: SecuredKafka, classpath: str) -> ToolPair:
    """Tools on both brokers, which have no ACLs."""
    tools = ToolPair(Tools(ours, classpath), Tools(kafka, classpath))
    for broker in (ours, kafka):
        with Admin(bootstrap_servers=broker.bootstrap("PLAINTEXT")) as admin:
            admin.delete_acls([AclBindingFilter()])
    return tools
