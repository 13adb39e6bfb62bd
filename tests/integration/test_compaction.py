"""A compacted topic, read by a client."""

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


def read_all(bootstrap: str, topic: str) -> list[tuple[int | None, bytes, bytes | None]]:
    """Read offset, key and value of all records."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    records = []
    while True:
        message = consumer.poll(10)
        assert message is not None, "no record within ten seconds"
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            break
        records.append((message.offset(), message.key() or b"", message.value()))
    consumer.close()
    return records


def wait_until(condition: Callable[[], bool], failure: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, failure
        time.sleep(0.3)


def test_consumer_reads_latest_value_per_key_and_tombstones_are_removed(
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
    for created in admin.create_topics([NewTopic(topic, 1, 1, config=settings)]).values():
        created.result(20)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 5})

    def delivered(error: KafkaError | None, _message: object) -> None:
        assert error is None, error

    def send(key: str, value: str | None) -> None:
        producer.produce(topic, key=key, value=value, partition=0, on_delivery=delivered)

    def fill_segment() -> None:
        """Fill another segment, so that the ones before become cleanable."""
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
    fill_segment()

    def keyed_records() -> list[tuple[int | None, bytes, bytes | None]]:
        return [record for record in read_all(broker.bootstrap, topic) if record[1].startswith(b"key-")]

    wait_until(lambda: len(keyed_records()) == KEYS, "old values are still in the log")
    first = ROUNDS * KEYS
    values = {b"key-%d" % key: b"%d-%d" % (ROUNDS - 1, key) + b"." * 100 for key in range(1, KEYS, 2)}
    tombstones = {b"key-%d" % key: None for key in range(0, KEYS, 2)}
    assert {key: value for _, key, value in keyed_records()} == values | tombstones
    assert {key: offset for offset, key, value in keyed_records() if value is None} == {
        b"key-%d" % key: first + key // 2 for key in range(0, KEYS, 2)
    }
    time.sleep(DELETE_RETENTION_MS / 1000)

    def without_tombstones() -> bool:
        fill_segment()
        return {key: value for _, key, value in keyed_records()} == values

    wait_until(without_tombstones, "tombstones are still in the log")
    broker.kill()
    broker.start()
    assert {key: value for _, key, value in keyed_records()} == values
