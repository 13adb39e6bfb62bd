"""Every client with default settings, except for the broker's address.

These read like the examples people copy, and so use the clients as they are.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioNewTopic
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer
from confluent_kafka import TopicPartition as ConfluentTopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import NewTopic as ConfluentNewTopic
from tests.compat.clients.kafka_python import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

SECONDS_MAX = 30
POLL_SECONDS = 0.05


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait for all brokers of a cluster to hear of a new topic; one broker knows it at once."""
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(POLL_SECONDS)


def test_confluent_producer(bootstrap: str, topic: str) -> None:
    delivered = []
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(
        topic, b"hello", on_delivery=lambda error, message: delivered.append((error, message.offset()))
    )
    assert producer.flush(30) == 0
    assert delivered == [(None, 0)]


def test_confluent_admin(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([ConfluentNewTopic(topic)])[topic].result(30)
    wait_for(lambda: topic in admin.list_topics(timeout=30).topics)


def test_confluent_consumer_of_an_assigned_partition(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"hello")
    producer.flush(30)
    # The client requires a group id, and would commit to it automatically.
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([ConfluentTopicPartition(topic, 0, OFFSET_BEGINNING)])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    assert message.error() is None
    assert message.value() == b"hello"


def test_kafka_python_producer(bootstrap: str, topic: str) -> None:
    with KafkaProducer(bootstrap_servers=bootstrap) as producer:
        assert producer.send(topic, b"hello").get(timeout=30).offset == 0


def test_kafka_python_admin(bootstrap: str, topic: str) -> None:
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([topic])
        wait_for(lambda: topic in admin.list_topics())


def test_kafka_python_consumer_of_an_assigned_partition(bootstrap: str, topic: str) -> None:
    with KafkaProducer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"hello").get(timeout=30)
    with KafkaConsumer(bootstrap_servers=bootstrap) as consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        assert next(consumer).value == b"hello"


def test_aiokafka_producer(bootstrap: str, topic: str) -> None:
    async def produce() -> int:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            sent = await producer.send_and_wait(topic, b"hello")
        return int(sent.offset)

    assert asyncio.run(produce()) == 0


def test_aiokafka_admin(bootstrap: str, topic: str) -> None:
    async def create() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        await admin.create_topics([AioNewTopic(topic, 1, 1)])
        async with asyncio.timeout(SECONDS_MAX):
            while topic not in await admin.list_topics():
                await asyncio.sleep(POLL_SECONDS)
        await admin.close()

    asyncio.run(create())


def test_aiokafka_consumer_of_an_assigned_partition(bootstrap: str, topic: str) -> None:
    async def produce_and_consume() -> bytes | None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            await producer.send_and_wait(topic, b"hello")
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
            partition = AioTopicPartition(topic, 0)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            return (await consumer.getone()).value

    assert asyncio.run(produce_and_consume()) == b"hello"
