"""Group members, one class per client, with one interface."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, cast

from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AioRange
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as AioRoundRobin
from confluent_kafka import Consumer
from tests.compat.clients.aiokafka import LoopThread
from tests.compat.clients.interface import Received
from tests.support.aiokafka_consumer import stop_consumer

with warnings.catch_warnings():
    # The client reads its schemas with a call that Python 3.11 deprecates; warnings are errors here.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

SESSION_MS: Final = 6_000
"""The shortest that brokers allow."""
HEARTBEAT_MS: Final = 500
RECORDS_MAX: Final = 500
KAFKA_PYTHON_POLL_SECONDS_MIN: Final = 1.0
"""A poll of kafka-python that ends during its join may never get the assignment."""


class GroupMember(Protocol):
    """Consumer subscribed to one topic, with manual commits."""

    def poll(self, seconds: float) -> list[Received]:
        """Poll for a while; return the records."""

    def assigned(self) -> set[int]:
        """Return the assigned partitions."""

    def commit(self) -> None:
        """Commit all polled offsets, and wait."""

    def close(self) -> None:
        """Close; a dynamic member also leaves the group."""


class ConfluentMember:
    def __init__(
        self, bootstrap: str, group: str, topic: str, *, strategy: str = "range", instance: str | None = None
    ) -> None:
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "partition.assignment.strategy": strategy,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
        }
        if instance is not None:
            settings["group.instance.id"] = instance
        self._consumer = Consumer(settings)
        self._consumer.subscribe([topic])

    def poll(self, seconds: float) -> list[Received]:
        messages = self._consumer.consume(RECORDS_MAX, timeout=seconds)
        return [
            Received(
                cast(int, message.partition()),
                cast(int, message.offset()),
                message.key(),
                message.value(),
                (),
                message.timestamp()[1],
            )
            for message in messages
            if message.error() is None
        ]

    def assigned(self) -> set[int]:
        return {item.partition for item in self._consumer.assignment()}

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


class KafkaPythonMember:
    STRATEGIES: Final = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }

    def __init__(
        self, bootstrap: str, group: str, topic: str, *, strategy: str = "range", instance: str | None = None
    ) -> None:
        self._consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            group_instance_id=instance,
            partition_assignment_strategy=[self.STRATEGIES[strategy]],
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
        )

    def poll(self, seconds: float) -> list[Received]:
        seconds = max(seconds, KAFKA_PYTHON_POLL_SECONDS_MIN)
        return _received(self._consumer.poll(timeout_ms=int(seconds * 1000), max_records=RECORDS_MAX))

    def assigned(self) -> set[int]:
        return {item.partition for item in self._consumer.assignment()}

    def commit(self) -> None:
        self._consumer.commit()

    def close(self) -> None:
        self._consumer.close()


class AiokafkaMember:
    STRATEGIES: Final = {"range": AioRange, "roundrobin": AioRoundRobin}

    def __init__(
        self, bootstrap: str, group: str, topic: str, *, strategy: str = "range", instance: str | None = None
    ) -> None:
        self._loop = LoopThread()
        settings = {
            "bootstrap_servers": bootstrap,
            "group_id": group,
            "group_instance_id": instance,
            "partition_assignment_strategy": [self.STRATEGIES[strategy]],
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": HEARTBEAT_MS,
        }
        self._consumer = self._loop.run(self._begin(topic, settings))

    @staticmethod
    async def _begin(topic: str, settings: dict[str, Any]) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(topic, **settings)
        await consumer.start()
        return consumer

    def poll(self, seconds: float) -> list[Received]:
        polled = self._consumer.getmany(timeout_ms=int(seconds * 1000), max_records=RECORDS_MAX)
        return _received(self._loop.run(polled))

    def assigned(self) -> set[int]:
        return {item.partition for item in self._consumer.assignment()}

    def commit(self) -> None:
        self._loop.run(self._consumer.commit())

    def close(self) -> None:
        self._loop.run(stop_consumer(self._consumer))
        self._loop.close()


def _received(polled: dict[Any, Sequence[Any]]) -> list[Received]:
    return [
        Received(record.partition, record.offset, record.key, record.value, (), record.timestamp)
        for records in polled.values()
        for record in records
    ]


MEMBERS: Final[dict[str, Callable[..., GroupMember]]] = {
    "aiokafka": AiokafkaMember,
    "confluent-kafka": ConfluentMember,
    "kafka-python": KafkaPythonMember,
}
