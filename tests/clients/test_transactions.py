"""Transactions of blocking and asyncio producers, read by Odradek's and librdkafka's consumers."""

from __future__ import annotations

import time
from typing import Any

import confluent_kafka
import pytest
from tests.clients.client_apis import Clients

from odradek import InvalidState, ProducerFenced, TopicPartition, TransactionAborted
from odradek.client.values import OffsetAndMetadata

READ_SECONDS_MAX = 30


def read_by_confluent(bootstrap: str, topic: str, end: bytes) -> list[bytes]:
    """Return the committed values of partition 0 up to ``end``."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    return _values_until(
        end, lambda: [message for message in [consumer.poll(1.0)] if message], consumer.close
    )


def read_by_odradek(clients: Clients, bootstrap: str, topic: str, end: bytes) -> list[bytes]:
    consumer = clients.consumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    consumer.assign([TopicPartition(topic, 0)])
    return _values_until(end, lambda: consumer.poll(1.0), consumer.close)


def _values_until(end: bytes, poll: Any, close: Any) -> list[bytes]:
    values: list[bytes] = []
    deadline = time.monotonic() + READ_SECONDS_MAX
    while end not in values and time.monotonic() < deadline:
        for message in poll():
            value = message.value
            values.append(value() if callable(value) else value)
    close()
    return values


@pytest.fixture
def transactional_id(topic: str) -> str:
    return f"id-of-{topic}"


def test_aborted_records_are_not_read(
    clients: Clients, bootstrap: str, topic: str, transactional_id: str
) -> None:
    producer = clients.producer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
    producer.init_transactions()
    expected = []
    for number in range(12):
        producer.begin_transaction()
        values = [b"%d-%d" % (number, index) for index in range(5)]
        deliveries = [producer.send(topic, value, partition=0) for value in values]
        if number % 4 == 0:
            deliveries[0].result(30)
            producer.abort_transaction()
        else:
            producer.commit_transaction()
            expected += values
            assert all(delivery.done() for delivery in deliveries)
    assert read_by_confluent(bootstrap, topic, expected[-1]) == expected
    assert read_by_odradek(clients, bootstrap, topic, expected[-1]) == expected


def test_abort_fails_unsent_records(
    clients: Clients, bootstrap: str, topic: str, transactional_id: str
) -> None:
    producer = clients.producer(
        bootstrap_servers=bootstrap, transactional_id=transactional_id, linger_ms=60_000
    )
    producer.init_transactions()
    producer.begin_transaction()
    unsent = producer.send(topic, b"unsent", partition=0)
    producer.abort_transaction()
    with pytest.raises(TransactionAborted):
        unsent.result(30)
    producer.begin_transaction()
    producer.send(topic, b"last", partition=0)
    producer.commit_transaction()
    assert read_by_confluent(bootstrap, topic, b"last") == [b"last"]


def test_second_producer_fences_first(
    clients: Clients, bootstrap: str, topic: str, transactional_id: str
) -> None:
    first = clients.producer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
    first.init_transactions()
    first.begin_transaction()
    first.send(topic, b"first", partition=0).result(30)
    second = clients.producer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
    second.init_transactions()
    with pytest.raises(ProducerFenced, match=transactional_id):
        first.commit_transaction()
    with pytest.raises(ProducerFenced):
        first.send(topic, b"more")
    second.begin_transaction()
    second.send(topic, b"second", partition=0)
    second.commit_transaction()
    assert read_by_confluent(bootstrap, topic, b"second") == [b"second"]


def test_librdkafka_producer_is_fenced(
    clients: Clients, bootstrap: str, topic: str, transactional_id: str
) -> None:
    other = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    other.init_transactions()
    other.begin_transaction()
    other.produce(topic, b"other", partition=0)
    other.flush()
    ours = clients.producer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
    ours.init_transactions()
    ours.begin_transaction()
    ours.send(topic, b"ours", partition=0)
    ours.commit_transaction()
    with pytest.raises(confluent_kafka.KafkaException) as error:
        other.commit_transaction()
    assert error.value.args[0].fatal()
    assert read_by_odradek(clients, bootstrap, topic, b"ours") == [b"ours"]


def test_exactly_once_copy(clients: Clients, bootstrap: str, topic: str, transactional_id: str) -> None:
    """Copy a topic in transactions that include the consumed offsets."""
    source, group = topic, f"copiers-of-{topic}"
    plain = clients.producer(bootstrap_servers=bootstrap)
    plain.send_many(source, [b"%d" % number for number in range(50)], partition=0).result()
    plain.close()
    producer = clients.producer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
    producer.init_transactions()
    copied: list[bytes] = []
    for is_committed in (True, False, True):
        consumer = clients.consumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        consumer.subscribe([source])
        records: list[Any] = []
        deadline = time.monotonic() + READ_SECONDS_MAX
        while not records and time.monotonic() < deadline:
            records = consumer.poll(1.0, max_records=20)
        producer.begin_transaction()
        for record in records:
            producer.send(f"{topic}-copy", record.value, partition=0)
        after = {TopicPartition(source, 0): OffsetAndMetadata(records[-1].offset + 1)}
        producer.send_offsets_to_transaction(after, consumer.group_metadata())
        if is_committed:
            producer.commit_transaction()
            copied += [record.value for record in records]
        else:
            producer.abort_transaction()
        consumer.close()
    assert copied == [b"%d" % number for number in range(len(copied))]
    assert len(copied) == 40
    assert read_by_confluent(bootstrap, f"{topic}-copy", copied[-1]) == copied


def test_send_offsets_with_group_id(
    clients: Clients, bootstrap: str, topic: str, transactional_id: str
) -> None:
    group = f"group-of-{topic}"
    producer = clients.producer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"v", partition=0)
    producer.send_offsets_to_transaction({TopicPartition(topic, 0): OffsetAndMetadata(1, "metadata")}, group)
    producer.commit_transaction()
    reader = clients.consumer(bootstrap_servers=bootstrap, group_id=group)
    committed = reader.committed(TopicPartition(topic, 0))[TopicPartition(topic, 0)]
    assert (committed.offset, committed.metadata) == (1, "metadata")


def test_transaction_calls_out_of_order_fail(
    clients: Clients, bootstrap: str, topic: str, transactional_id: str
) -> None:
    plain = clients.producer(bootstrap_servers=bootstrap)
    with pytest.raises(InvalidState, match=r"transactional\.id"):
        plain.init_transactions()
    producer = clients.producer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
    with pytest.raises(InvalidState, match="init_transactions"):
        producer.begin_transaction()
    producer.init_transactions()
    with pytest.raises(InvalidState, match="begin_transaction"):
        producer.send(topic, b"v")
    with pytest.raises(InvalidState, match="begin_transaction"):
        producer.commit_transaction()
