"""Transactions of both worlds against a real broker process, read by our consumer and by librdkafka's."""

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
    """Committed values of partition 0 up to one that is known to be the last."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    return _values_until(end, lambda: [one for one in [consumer.poll(1.0)] if one], consumer.close)


def read_by_ours(clients: Clients, bootstrap: str, topic: str, end: bytes) -> list[bytes]:
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


def test_committed_records_are_read_and_aborted_ones_are_not(
    clients: Clients, bootstrap: str, topic: str, transactional_id: str
) -> None:
    producer = clients.producer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
    producer.init_transactions()
    expected = []
    for number in range(12):
        producer.begin_transaction()
        values = [b"%d-%d" % (number, one) for one in range(5)]
        deliveries = [producer.send(topic, value, partition=0) for value in values]
        if number % 4 == 0:
            deliveries[0].result(30)
            producer.abort_transaction()
        else:
            producer.commit_transaction()
            expected += values
            assert all(delivery.done() for delivery in deliveries)
    assert read_by_confluent(bootstrap, topic, expected[-1]) == expected
    assert read_by_ours(clients, bootstrap, topic, expected[-1]) == expected


def test_records_that_were_not_sent_fail_with_the_abort(
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


def test_a_twin_takes_over(clients: Clients, bootstrap: str, topic: str, transactional_id: str) -> None:
    first = clients.producer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
    first.init_transactions()
    first.begin_transaction()
    first.send(topic, b"of the first", partition=0).result(30)
    second = clients.producer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
    second.init_transactions()
    with pytest.raises(ProducerFenced, match=transactional_id):
        first.commit_transaction()
    with pytest.raises(ProducerFenced):
        first.send(topic, b"more")
    second.begin_transaction()
    second.send(topic, b"of the second", partition=0)
    second.commit_transaction()
    assert read_by_confluent(bootstrap, topic, b"of the second") == [b"of the second"]


def test_a_producer_of_librdkafka_is_fenced_by_ours(
    clients: Clients, bootstrap: str, topic: str, transactional_id: str
) -> None:
    other = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    other.init_transactions()
    other.begin_transaction()
    other.produce(topic, b"of the other", partition=0)
    other.flush()
    ours = clients.producer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
    ours.init_transactions()
    ours.begin_transaction()
    ours.send(topic, b"ours", partition=0)
    ours.commit_transaction()
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        other.commit_transaction()
    assert refused.value.args[0].fatal()
    assert read_by_ours(clients, bootstrap, topic, b"ours") == [b"ours"]


def test_what_is_read_is_committed_with_what_is_written(
    clients: Clients, bootstrap: str, topic: str, transactional_id: str
) -> None:
    """Exactly once: a copy of a topic, made in transactions with the offsets read."""
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


def test_a_plain_group_id_is_enough_for_offsets(
    clients: Clients, bootstrap: str, topic: str, transactional_id: str
) -> None:
    group = f"group-of-{topic}"
    producer = clients.producer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"v", partition=0)
    producer.send_offsets_to_transaction({TopicPartition(topic, 0): OffsetAndMetadata(1, "note")}, group)
    producer.commit_transaction()
    reader = clients.consumer(bootstrap_servers=bootstrap, group_id=group)
    found = reader.committed(TopicPartition(topic, 0))[TopicPartition(topic, 0)]
    assert (found.offset, found.metadata) == (1, "note")


def test_calls_out_of_order_are_refused_in_plain_words(
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
