"""A user program. Lines that type checkers must report end with ``# error``; the others are correct.

``test_user_program`` compares the marked lines with those that mypy and pyright report.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, assert_type

import odradek
from odradek import (
    Admin,
    Consumer,
    ConsumerRecord,
    Deserializer,
    Producer,
    RebalanceListener,
    Serializer,
    TopicPartition,
    aio,
)


class Order:
    amount: int = 0


class OrderSerde:
    def serialize(self, topic: str, value: Order | None) -> bytes | None:
        return None if value is None else str(value.amount).encode()

    def deserialize(self, topic: str, data: bytes | None) -> Order:
        return Order()


class LegacySerde:
    def serialize(self, topic: str, value: Any) -> Any:
        return value

    def deserialize(self, topic: str, data: Any) -> Any:
        return data


class AssignedListener:
    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None: ...


class RevokedListener:
    def on_partitions_revoked(self, revoked: Sequence[TopicPartition]) -> None: ...


class LostListener:
    async def on_partitions_lost(self, partitions: list[TopicPartition]) -> None: ...


class InheritedListener(RebalanceListener):
    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None: ...


class MisspelledListener:
    def on_partition_assigned(self, partitions: list[TopicPartition]) -> None: ...


class WrongListener:
    def on_partitions_assigned(self, partitions: list[str]) -> None: ...


def order_of(data: bytes) -> Order:
    return Order()


def bytes_of(order: Order) -> bytes:
    return b""


def options_are_typed() -> None:
    Consumer(bootstrap_servers="localhost:9092", group_id="g", auto_offset_reset="earliest")
    Consumer(bootstrap_servers=["a:9092", "b:9092"], session_timeout_ms=10_000, enable_auto_commit=False)
    Consumer(session_timeout_ms=timedelta(seconds=10), partition_assignment_strategy=["range", "sticky"])
    Consumer(partition_assignment_strategy="cooperative-sticky", isolation_level="read_committed")
    Consumer({"bootstrap.servers": "localhost:9092", "group.id": "g"}, check_crcs=None)
    Consumer(typo=3)  # error
    Consumer(auto_offset_reset="begining")  # error
    Consumer(enable_auto_commit="yes")  # error
    Consumer(max_poll_records="many")  # error
    Consumer(isolation_level="committed")  # error
    Consumer(partition_assignment_strategy=["range", "rang"])  # error
    Consumer(linger_ms=5)  # error
    Consumer(security_protocol="PLAINTXT")  # error
    Producer(acks="all", compression_type="zstd", linger_ms=5, security_protocol="PLAINTEXT")
    Producer(acks=1, transactional_id="t", max_block_ms=timedelta(seconds=5))
    Producer(acks="most")  # error
    Producer(acks=2)  # error
    Producer(compression_type="zst")  # error
    Producer(lingerms=5)  # error
    Producer(group_id="g")  # error
    Admin(bootstrap_servers="localhost:9092", retries=3)
    Admin(bootstrap_server="localhost:9092")  # error
    Admin(retries="three")  # error


def options_of_asyncio_are_typed() -> None:
    aio.Consumer(bootstrap_servers="localhost:9092", auto_offset_reset="latest")
    aio.Consumer(typo=3)  # error
    aio.Consumer(auto_offset_reset="begining")  # error
    aio.Producer(bootstrap_servers="localhost:9092", acks="all")
    aio.Producer(typo=3)  # error
    aio.Producer(compression_type="lz5")  # error
    aio.Admin(bootstrap_servers="localhost:9092")
    aio.Admin(typo=3)  # error


def records_are_bytes_by_default(consumer: Consumer) -> None:
    for record in consumer:
        assert_type(record.value, bytes | None)
        assert_type(record.key, bytes | None)
        record.value.decode()  # error
        if record.value is not None:
            record.value.decode()
        print(record.vlaue)  # error
    (first, *_) = consumer.poll(1.0)
    assert_type(first, ConsumerRecord[bytes, bytes])
    assert_type(Consumer(), Consumer[bytes, bytes])
    assert_type(Consumer(key_deserializer="bytes", value_deserializer=None), Consumer[bytes, bytes])


def deserializers_decide_what_records_hold() -> None:
    assert_type(Consumer(value_deserializer="str"), Consumer[bytes, str])
    assert_type(Consumer(value_deserializer="json"), Consumer[bytes, Any])
    assert_type(Consumer(key_deserializer="str", value_deserializer="json"), Consumer[str, Any])
    assert_type(Consumer(key_deserializer="str", value_deserializer=order_of), Consumer[str, Order])
    assert_type(Consumer(key_deserializer=int, value_deserializer=OrderSerde()), Consumer[int, Order])
    assert_type(Consumer(value_deserializer=json.loads), Consumer[bytes, Any])
    assert_type(Consumer(value_deserializer=LegacySerde()), Consumer[bytes, Any])
    Consumer(value_deserializer="jsn")  # error
    Consumer(value_deserializer=5)  # error
    for document in Consumer(value_deserializer="json", group_id="g"):
        print(document.value["name"])  # error
        if document.value is not None:
            print(document.value["name"])
    for record in Consumer(value_deserializer="str", group_id="g"):
        assert_type(record, ConsumerRecord[bytes, str])
        assert_type(record.value, str | None)
        number: int = record.offset
        text: str = record.key  # error
        del number, text


async def deserializers_of_asyncio_do_too() -> None:
    assert_type(aio.Consumer(), aio.Consumer[bytes, bytes])
    assert_type(aio.Consumer(key_deserializer="str", value_deserializer=order_of), aio.Consumer[str, Order])
    async with aio.Consumer(value_deserializer="str") as consumer:
        async for record in consumer:
            assert_type(record.value, str | None)
        assert_type(await consumer.poll(), list[ConsumerRecord[bytes, str]])


def values_are_bytes_by_default(producer: Producer) -> None:
    producer.send("visits", b"value", key=b"key", headers=[("name", b"value")]).result()
    producer.send("visits", bytearray(b"value"), b"key", {"name": b"value"}, timestamp_ms=5, partition=0)
    producer.send("visits", None, key=b"tombstone")
    producer.send_many("visits", [b"a", b"b"], keys=[b"1", None])
    producer.send("visits", "text")  # error
    producer.send("visits", b"value", key="text")  # error
    producer.send("visits", 5)  # error
    producer.send(5, b"value")  # error
    producer.send("visits", b"value", partition="0")  # error
    producer.send("visits", b"value", headers={"name": "text"})  # error
    producer.send_many("visits", ["a", "b"])  # error
    producer.send_many("visits", b"value")  # error
    producer.sned("visits", b"value")  # error


def serializers_decide_what_is_sent() -> None:
    Producer(value_serializer="str").send("visits", "text", key=b"key")
    Producer(value_serializer="str").send("visits", b"value")  # error
    Producer(value_serializer="json").send("visits", {"anything": [1, 2]})
    Producer(key_serializer="str", value_serializer=bytes_of).send("visits", Order(), key="text")
    Producer(key_serializer="str", value_serializer=bytes_of).send("visits", "text")  # error
    Producer(value_serializer=OrderSerde()).send("visits", Order())
    Producer(value_serializer=OrderSerde()).send("visits", 5)  # error
    Producer(value_serializer=LegacySerde()).send("visits", 5)
    Producer(value_serializer="string")  # error
    accepts_texts(Producer(value_serializer="str"))
    accepts_texts(Producer(value_serializer="json"))
    accepts_texts(Producer())  # error


def accepts_texts(producer: Producer[bytes, str]) -> None:
    producer.send("visits", "text")


async def serializers_of_asyncio_do_too() -> None:
    async with aio.Producer() as producer:
        await producer.send("visits", b"value")
        await producer.send("visits", "text")  # error
    async with aio.Producer(value_serializer="str") as texts:
        (await (await texts.send("visits", "text"))).offset.bit_length()
        await texts.send("visits", b"value")  # error


def topics_are_more_than_one_name(consumer: Consumer[str, Order], partition: TopicPartition) -> None:
    consumer.subscribe(["visits"])
    consumer.subscribe(("visits", "orders"))
    consumer.subscribe({"visits": 1})
    consumer.subscribe(name for name in ["visits"])
    consumer.subscribe(pattern="visits-.*")
    consumer.subscribe("visits")  # error
    consumer.subscribe([b"visits"])  # error
    consumer.assign([partition])
    consumer.assign("visits")  # error
    consumer.seek(partition, 5)
    consumer.seek(partition, "5")  # error


async def topics_of_asyncio_are_too(consumer: aio.Consumer, admin: aio.Admin) -> None:
    consumer.subscribe(["visits"])
    consumer.subscribe("visits")  # error
    await admin.delete_topics(["visits"])
    await admin.delete_topics("visits")  # error


def topics_of_admin_are_too(admin: Admin) -> None:
    admin.delete_topics(["visits"])
    admin.delete_topics("visits")  # error
    admin.describe_groups("readers")  # error
    assert_type(admin.list_topics(), dict[str, odradek.TopicListing])


def serdes_can_be_annotated(
    serializer: Serializer[Order], deserializer: Deserializer[Order], plain: Callable[[bytes], int]
) -> None:
    assert_type(Consumer(key_deserializer=plain, value_deserializer=deserializer), Consumer[int, Order])
    Producer(value_serializer=serializer).send("orders", Order())
    Producer(value_serializer=deserializer)  # error


def listeners_need_one_method(consumer: Consumer, async_consumer: aio.Consumer) -> None:
    consumer.subscribe(["visits"], listener=AssignedListener())
    consumer.subscribe(["visits"], listener=RevokedListener())
    async_consumer.subscribe(["visits"], listener=LostListener())
    async_consumer.subscribe(pattern="visits-.*", listener=InheritedListener())
    consumer.subscribe(["visits"], listener=MisspelledListener())  # error
    consumer.subscribe(["visits"], listener=WrongListener())  # error
    async_consumer.subscribe(["visits"], listener=print)  # error
