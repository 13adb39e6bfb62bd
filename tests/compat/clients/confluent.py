"""confluent-kafka: librdkafka from Python."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from tests.compat.clients.interface import (
    DEFAULT_REPLICAS,
    EARLIEST,
    LATEST,
    ErrorResponse,
    Message,
    Received,
)

SECONDS_MAX = 30


def _error_response(error: KafkaError) -> ErrorResponse:
    # librdkafka reports an offset out of range with auto.offset.reset=error as its own error code.
    code = 1 if error.code() == KafkaError._AUTO_OFFSET_RESET else error.code()
    return ErrorResponse(code, error.str())


def _result(futures: dict[Any, Any]) -> Any:
    (future,) = futures.values()
    try:
        return future.result(SECONDS_MAX)
    except KafkaException as error:
        raise _error_response(error.args[0]) from error


class ConfluentReader:
    def __init__(self, settings: dict[str, Any], assignment: list[TopicPartition]) -> None:
        self._consumer = Consumer(settings)
        self._consumer.assign(assignment)
        self._early: list[Received] = []

    def wait_until_at_end(self, partitions: int) -> None:
        """Poll until every partition has reached its end, so that the start positions are resolved."""
        deadline = time.monotonic() + SECONDS_MAX
        while partitions and time.monotonic() < deadline:
            message = self._consumer.poll(1)
            if message is None:
                continue
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                partitions -= 1
            elif error is not None:
                raise _error_response(error)
            else:
                self._early.append(_received(message))
        assert not partitions, "the end of the partitions was not reached"

    def read(self, count: int, within_seconds: float = 20) -> list[Received]:
        result = self._early[:count]
        del self._early[:count]
        deadline = time.monotonic() + within_seconds
        while len(result) < count and (left := deadline - time.monotonic()) > 0:
            message = self._consumer.poll(left)
            if message is None:
                continue
            error = message.error()
            if error is None:
                result.append(_received(message))
            elif error.code() != KafkaError._PARTITION_EOF and not error.retriable():
                raise _error_response(error)
        return result

    def close(self) -> None:
        self._consumer.close()


def _received(message: Any) -> Received:
    headers = tuple((name, content) for name, content in message.headers() or ())
    return Received(
        message.partition(), message.offset(), message.key(), message.value(), headers, message.timestamp()[1]
    )


class ConfluentProducerHandle:
    def __init__(self, settings: dict[str, Any]) -> None:
        self._producer = Producer(settings)

    def send_all(self, topic: str, messages: Sequence[Message]) -> list[int]:
        offsets: dict[int, int] = {}
        errors: list[KafkaError] = []
        for index, message in enumerate(messages):

            def delivered(error: KafkaError | None, sent: Any, index: int = index) -> None:
                if error is not None:
                    errors.append(error)
                else:
                    offsets[index] = sent.offset()

            try:
                self._producer.produce(topic, on_delivery=delivered, **_keywords(message))
            except KafkaException as error:
                raise _error_response(error.args[0]) from error
        unsent = self._producer.flush(SECONDS_MAX)
        if errors:
            raise _error_response(errors[0])
        assert unsent == 0, f"{unsent} records were not acknowledged in {SECONDS_MAX} s"
        return [offsets[index] for index in range(len(messages))]

    def send(self, topic: str, message: Message) -> int:
        return self.send_all(topic, [message])[0]

    def close(self) -> None:
        self._producer.flush(SECONDS_MAX)


def _keywords(message: Message) -> dict[str, Any]:
    keywords: dict[str, Any] = {"value": message.value, "key": message.key}
    if message.headers:
        keywords["headers"] = list(message.headers)
    if message.partition is not None:
        keywords["partition"] = message.partition
    if message.timestamp_ms is not None:
        keywords["timestamp"] = message.timestamp_ms
    return keywords


class Confluent:
    name = "confluent-kafka"

    def __init__(self, bootstrap: str) -> None:
        self._to: dict[str, Any] = {"bootstrap.servers": bootstrap}
        self._admin = AdminClient(self._to)
        self._producers: dict[tuple[Any, ...], ConfluentProducerHandle] = {}

    def close(self) -> None:
        for producer in self._producers.values():
            producer.close()

    def create_topic(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        new = NewTopic(topic, partitions, DEFAULT_REPLICAS, config=dict(configs or {}))
        _result(self._admin.create_topics([new]))

    def delete_topic(self, topic: str) -> None:
        _result(self._admin.delete_topics([topic]))

    def list_topics(self) -> set[str]:
        return set(self._admin.list_topics(timeout=SECONDS_MAX).topics)

    def partitions_of(self, topic: str) -> list[int]:
        result = self._admin.list_topics(topic, timeout=SECONDS_MAX).topics[topic]
        if result.error is not None:
            raise _error_response(result.error)
        return sorted(result.partitions)

    def create_partitions(self, topic: str, total: int) -> None:
        _result(self._admin.create_partitions([NewPartitions(topic, total)]))

    def describe_configs(self, topic: str) -> dict[str, str | None]:
        return self._describe(ConfigResource(ResourceType.TOPIC, topic))

    def describe_broker_configs(self) -> dict[str, str | None]:
        broker_id = min(self._admin.list_topics(timeout=SECONDS_MAX).brokers)
        return self._describe(ConfigResource(ResourceType.BROKER, str(broker_id)))

    def _describe(self, resource: ConfigResource) -> dict[str, str | None]:
        entries = _result(self._admin.describe_configs([resource]))
        return {name: entry.value for name, entry in entries.items()}

    def alter_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in configs.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        _result(self._admin.incremental_alter_configs([resource]))

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        compression: str | None = None,
        acks: int | None = None,
        idempotent: bool | None = None,
        bytes_max: int | None = None,
    ) -> list[int]:
        chosen = {
            "compression.type": compression,
            "acks": acks,
            "enable.idempotence": idempotent,
            "message.max.bytes": bytes_max,
        }
        settings = {name: value for name, value in chosen.items() if value is not None}
        key = tuple(settings.items())
        if key not in self._producers:
            self._producers[key] = ConfluentProducerHandle({**self._to, "linger.ms": 5, **settings})
        try:
            return self._producers[key].send_all(topic, messages)
        except ErrorResponse:
            # Some clients cannot use an idempotent producer any more once a record was rejected.
            self._producers.pop(key).close()
            raise

    def open_producer(self) -> ConfluentProducerHandle:
        return ConfluentProducerHandle(dict(self._to))

    def open_reader(
        self,
        topic: str,
        partitions: Sequence[int] = (0,),
        *,
        start: int = EARLIEST,
        reset: str = "earliest",
        wait_ms: int | None = None,
    ) -> ConfluentReader:
        settings = {
            **self._to,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": {"none": "error"}.get(reset, reset),
            "enable.partition.eof": True,
        }
        if wait_ms is not None:
            settings["fetch.wait.max.ms"] = wait_ms
        at = {EARLIEST: OFFSET_BEGINNING, LATEST: OFFSET_END}.get(start, start)
        reader = ConfluentReader(settings, [TopicPartition(topic, partition, at) for partition in partitions])
        if start == LATEST:
            reader.wait_until_at_end(len(partitions))
        return reader

    def _query(self, method: str, *what: Any) -> Any:
        consumer = Consumer({**self._to, "group.id": "unused", "enable.auto.commit": False})
        try:
            return getattr(consumer, method)(*what, timeout=SECONDS_MAX)
        except KafkaException as error:
            raise _error_response(error.args[0]) from error
        finally:
            consumer.close()

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        (result,) = self._query("offsets_for_times", [TopicPartition(topic, partition, timestamp_ms)])
        if result.error is not None:
            raise _error_response(result.error)
        return None if result.offset in (OFFSET_END, -1) else int(result.offset)

    def offsets(self, topic: str, partition: int = 0) -> tuple[int, int]:
        low, high = self._query("get_watermark_offsets", TopicPartition(topic, partition))
        return low, high

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        done = _result(self._admin.delete_records([TopicPartition(topic, partition, before)]))
        return int(done.low_watermark)
