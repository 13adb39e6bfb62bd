"""The broker goes away and comes back on its port: what was acknowledged is there, and clients go on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.compat.clients.interface import Client, Message, read_all
from tests.support.broker import Broker
from tests.support.fixtures import StartBroker
from tests.support.kio_requests import wait_until_led

MakeClient = Callable[[str], Client]
ENDS = {"SIGTERM": Broker.stop, "kill -9": Broker.kill}


@pytest.fixture(params=sorted(ENDS))
def end(request: pytest.FixtureRequest) -> Callable[[Broker], None]:
    """Each way to end a broker."""
    return ENDS[request.param]


def test_acknowledged_records_topics_and_settings_survive(
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
        assert [one.value for one in read_all(client, topic, 100)] == [
            b"%d" % number for number in range(0, 200, 2)
        ]
        assert client.offsets(topic, 0) == (0, 100)
        assert client.produce(topic, [Message(b"after", partition=0)]) == [100]
    finally:
        client.close()


def test_first_offset_after_a_deletion_survives_a_clean_stop(
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


def test_connected_producer_and_consumer_go_on_after_a_restart(
    start_broker: StartBroker, make_client: MakeClient, topic: str, end: Callable[[Broker], None]
) -> None:
    broker = start_broker()
    client = make_client(broker.bootstrap)
    client.create_topic(topic)
    producer = client.producing()
    reader = client.reading(topic)
    try:
        assert producer.send(topic, Message(b"before")) == 0
        assert [one.value for one in reader.read(1)] == [b"before"]
        end(broker)
        broker.start()
        assert producer.send(topic, Message(b"after")) == 1
        assert [(one.offset, one.value) for one in reader.read(1, within_seconds=30)] == [(1, b"after")]
    finally:
        reader.close()
        producer.close()
        client.close()


def test_idempotent_producer_goes_on_without_a_gap_after_a_restart(
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
        assert [one.value for one in read_all(client, topic, 20)] == [b"a"] * 10 + [b"b"] * 10
    finally:
        client.close()
