"""Fixtures: a secured Apache Kafka broker, and the class path of Kafka's tools."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from tests.mixed.harness.kafka_tools import fetched_classpath
from tests.secured_kafka.secured_kafka import SecuredKafka
from tests.support.secured_broker import USERS, add_scram_users

from odradek import Admin

KAFKA_VERSION = "3.9.1"
ADMIN = "admin"
"""A super user; it has SCRAM credentials only."""


@pytest.fixture(scope="session")
def classpath() -> str:
    return fetched_classpath(KAFKA_VERSION)


@pytest.fixture(scope="session")
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
