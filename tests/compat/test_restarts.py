"""Broker restarts on the same port: acknowledged records survive, and clients resume."""

from __future__ import annotations

from collections.abc import Callable
from operator import methodcaller

import pytest
from tests.compat.clients.interface import Client, Message, read_all
from tests.support.broker import Broker
from tests.support.fixtures import StartBroker
from tests.support.kio_requests import wait_until_led

MakeClient = Callable[[str], Client]
ENDS = {"SIGTERM": methodcaller("stop"), "kill -9": methodcaller("kill")}


@pytest.fixture(params=sorted(ENDS))
def end(request: pytest.FixtureRequest) -> Callable[[Broker], None]:
    """Clean stop and kill."""
    return ENDS[request.param]


def test_acknowledged_records_topics_and_configs_survive(
    start_broker: StartBroker, make_client: MakeClient, topic: str, end: Callable[[Broker], None]
) -> None:
    broker = start_broker()
    client = make_client(broker.bootstrap)
    client.create_topic(topic, partitions=2, configs={"retention.ms": "987654321"})
    messages = [Message(str(number).encode(), key=b"k", partition=number % 2) for number in range(200)]
    client.produce(topic, messages, compression="gzip")
    client.delete_records(topic, 1, 10)
    client.close()
    end(broker)
    broker.start()
    wait_until_led(broker.bootstrap, topic)
    client = make_client(broker.bootstrap)
    try:
        assert client.partitions_of(topic) == [0, 1]
        assert client.describe_configs(topic)["retention.ms"] == "987654321"
        assert [item.value for item in read_all(client, topic, 100)] == [
            b"%d" % number for number in range(0, 200, 2)
        ]
        assert client.offsets(topic, 0) == (0, 100)
        assert client.produce(topic, [Message(b"after", partition=0)]) == [100]
    finally:
        client.close()


def test_beginning_offset_after_delete_records_survives_a_clean_stop(
    start_broker: StartBroker, make_client: MakeClient, topic: str
) -> None:
    broker = start_broker()
    client = make_client(broker.bootstrap)
    client.create_topic(topic)
    client.produce(topic, [Message(b"v")] * 20)
    client.delete_records(topic, 0, 10)
    client.close()
    broker.stop()
    broker.start()
    wait_until_led(broker.bootstrap, topic)
    client = make_client(broker.bootstrap)
    try:
        assert client.offsets(topic) == (10, 20)
    finally:
        client.close()


def test_producer_and_consumer_resume_after_a_restart(
    start_broker: StartBroker, make_client: MakeClient, topic: str, end: Callable[[Broker], None]
) -> None:
    broker = start_broker()
    client = make_client(broker.bootstrap)
    client.create_topic(topic)
    producer = client.open_producer()
    reader = client.open_reader(topic)
    try:
        assert producer.send(topic, Message(b"before")) == 0
        assert [record.value for record in reader.read(1)] == [b"before"]
        end(broker)
        broker.start()
        assert producer.send(topic, Message(b"after")) == 1
        assert [(record.offset, record.value) for record in reader.read(1, within_seconds=30)] == [
            (1, b"after")
        ]
    finally:
        reader.close()
        producer.close()
        client.close()


def test_idempotent_producer_resumes_without_a_gap_after_a_restart(
    start_broker: StartBroker, make_client: MakeClient, topic: str, end: Callable[[Broker], None]
) -> None:
    broker = start_broker()
    client = make_client(broker.bootstrap)
    try:
        client.create_topic(topic)
        assert client.produce(topic, [Message(b"a")] * 10, idempotent=True) == list(range(10))
        end(broker)
        broker.start()
        assert client.produce(topic, [Message(b"b")] * 10, idempotent=True) == list(range(10, 20))
        assert [item.value for item in read_all(client, topic, 20)] == [b"a"] * 10 + [b"b"] * 10
    finally:
        client.close()
