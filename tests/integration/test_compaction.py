"""A compacted topic, as a client sees it."""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.fixtures import StartBroker

KEYS = 50
ROUNDS = 40
WAIT_SECONDS_MAX = 60
DELETE_RETENTION_MS = 1_500


def read_all(bootstrap: str, topic: str) -> list[tuple[int, bytes, bytes | None]]:
    """Offset, key and value of all there is to read."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found = []
    while True:
        message = consumer.poll(10)
        assert message is not None, "nothing came for ten seconds"
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            break
        found.append((message.offset(), message.key(), message.value()))
    consumer.close()
    return found


def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.3)


def test_a_consumer_sees_the_last_value_of_each_key_and_tombstones_vanish(
    start_broker: StartBroker, topic: str
) -> None:
    broker = start_broker({"log.cleaner.backoff.ms": "200"})
    settings = {
        "cleanup.policy": "compact",
        "segment.bytes": "20000",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": str(DELETE_RETENTION_MS),
    }
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for made in admin.create_topics([NewTopic(topic, 1, 1, config=settings)]).values():
        made.result(20)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 5})

    def delivered(error: KafkaError | None, _message: object) -> None:
        assert error is None, error

    def send(key: str, value: str | None) -> None:
        producer.produce(topic, key=key, value=value, partition=0, on_delivery=delivered)

    def push() -> None:
        """Begin another segment, so that what came before may be compacted."""
        for number in range(30):
            send(f"push-{number}", "x" * 1000)
            if number % 10 == 9:
                assert producer.flush(20) == 0

    for number in range(ROUNDS):
        for key in range(KEYS):
            send(f"key-{key}", f"{number}-{key}" + "." * 100)
        assert producer.flush(20) == 0
    for key in range(0, KEYS, 2):
        send(f"key-{key}", None)
    push()

    def own() -> list[tuple[int, bytes, bytes | None]]:
        return [one for one in read_all(broker.bootstrap, topic) if one[1].startswith(b"key-")]

    until(lambda: len(own()) == KEYS, "old values are still there")
    first = ROUNDS * KEYS
    values = {b"key-%d" % key: b"%d-%d" % (ROUNDS - 1, key) + b"." * 100 for key in range(1, KEYS, 2)}
    tombstones = {b"key-%d" % key: None for key in range(0, KEYS, 2)}
    assert {key: value for _, key, value in own()} == values | tombstones
    assert {key: offset for offset, key, value in own() if value is None} == {
        b"key-%d" % key: first + key // 2 for key in range(0, KEYS, 2)
    }
    time.sleep(DELETE_RETENTION_MS / 1000)

    def without_tombstones() -> bool:
        push()
        return {key: value for _, key, value in own()} == values

    until(without_tombstones, "tombstones are still there")
    broker.kill()
    broker.start()
    assert {key: value for _, key, value in own()} == values
