"""Producers and consumers that find lost records."""

from __future__ import annotations

import itertools
import threading
import time
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

READ_SECONDS_MAX = 60.0
FLUSH_SECONDS_MAX = 90.0
PAUSE_SECONDS = 0.005


class Load:
    """Records sent with acks=all, one by one in a thread, and the values that were acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acknowledged: list[bytes] = []
        self.failures: list[str] = []
        self._topic = topic
        settings = {
            "bootstrap.servers": bootstrap,
            "log_level": 2,
            "enable.idempotence": True,
            "linger.ms": 5,
            "socket.timeout.ms": 10_000,  # a paused broker keeps its connections open
        }
        self._producer = Producer(settings)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._produce)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        self._thread.join()
        if self._producer.flush(FLUSH_SECONDS_MAX) and error is None:
            raise TimeoutError(f"records must be acknowledged within {FLUSH_SECONDS_MAX} s")

    def wait_for_acknowledged(self, count: int) -> None:
        """Wait for so many more acknowledgements."""
        goal = len(self.acknowledged) + count
        deadline = time.monotonic() + FLUSH_SECONDS_MAX
        while len(self.acknowledged) < goal:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{goal} records must be acknowledged, got {len(self.acknowledged)}")
            time.sleep(PAUSE_SECONDS)

    def _produce(self) -> None:
        for number in itertools.count():
            if self._ends.is_set():
                return
            value = b"value %d" % number
            self._producer.produce(self._topic, value, partition=0, on_delivery=self._on_delivery)
            self._producer.poll(PAUSE_SECONDS)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        value = message.value()
        if error is None and value is not None:
            self.acknowledged.append(value)
        else:
            self.failures.append(str(error))


def read_values(bootstrap: str, topic: str, partition: int = 0) -> list[bytes]:
    """Return all committed values of a partition, up to its end at the start of the call."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "log_level": 2,
    }
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        values: list[bytes] = []
        deadline = time.monotonic() + READ_SECONDS_MAX
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            error = None if message is None else message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                return values
            if message is not None and error is None:
                values.append(message.value() or b"")
        raise TimeoutError(f"{topic} must be readable within {READ_SECONDS_MAX} s, got {len(values)} records")
    finally:
        consumer.close()
