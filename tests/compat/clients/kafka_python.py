"""kafka-python 3: the pure Python client, idempotent by default."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

with warnings.catch_warnings():
    # The client reads its schemas with a call that Python 3.11 deprecates; warnings are errors here.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import ConfigResource, ConfigResourceType
    from kafka.errors import BrokerResponseError, KafkaError

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
    return ErrorResponse(getattr(error, "errno", -1000), repr(error))


class KafkaPythonReader:
    def __init__(self, consumer: KafkaConsumer) -> None:
        self._consumer = consumer
        self._early: list[Received] = []

    def read(self, count: int, within_seconds: float = 20) -> list[Received]:
        result = self._early[:count]
        del self._early[:count]
        deadline = time.monotonic() + within_seconds
        while len(result) < count and (left := deadline - time.monotonic()) > 0:
            try:
                polled = self._consumer.poll(timeout_ms=int(left * 1000) + 1, max_records=count - len(result))
            except BrokerResponseError as error:
                raise _error_response(error) from error
            for records in polled.values():
                result += [_received(record) for record in records]
        return result

    def close(self) -> None:
        self._consumer.close()


def _received(record: Any) -> Received:
    headers = tuple((name, content) for name, content in record.headers)
    return Received(record.partition, record.offset, record.key, record.value, headers, record.timestamp)


class KafkaPythonProducerHandle:
    def __init__(self, settings: dict[str, Any]) -> None:
        self._producer = KafkaProducer(**settings)

    def send_all(self, topic: str, messages: Sequence[Message]) -> list[int]:
        try:
            futures = [
                self._producer.send(
                    topic,
                    value=message.value,
                    key=message.key,
                    headers=list(message.headers),
                    partition=message.partition,
                    timestamp_ms=message.timestamp_ms,
                )
                for message in messages
            ]
            return [future.get(timeout=SECONDS_MAX).offset for future in futures]
        except KafkaError as error:
            raise _error_response(error) from error

    def send(self, topic: str, message: Message) -> int:
        return self.send_all(topic, [message])[0]

    def close(self) -> None:
        self._producer.close(timeout=SECONDS_MAX)


class KafkaPython:
    name = "kafka-python"

    def __init__(self, bootstrap: str) -> None:
        self._to = {"bootstrap_servers": bootstrap}
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        self._offsets_consumer = KafkaConsumer(bootstrap_servers=bootstrap)
        self._producers: dict[tuple[Any, ...], KafkaPythonProducerHandle] = {}

    def close(self) -> None:
        for producer in self._producers.values():
            producer.close()
        self._offsets_consumer.close()
        self._admin.close()

    def create_topic(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        expected = {
            "num_partitions": partitions,
            "replication_factor": DEFAULT_REPLICAS,
            "configs": dict(configs or {}),
        }
        try:
            self._admin.create_topics({topic: expected})
        except KafkaError as error:
            raise _error_response(error) from error

    def delete_topic(self, topic: str) -> None:
        try:
            self._admin.delete_topics([topic])
        except KafkaError as error:
            raise _error_response(error) from error

    def list_topics(self) -> set[str]:
        return set(self._admin.list_topics())

    def partitions_of(self, topic: str) -> list[int]:
        (result,) = self._admin.describe_topics([topic])
        if result["error_code"]:
            raise ErrorResponse(result["error_code"])
        return sorted(partition["partition_index"] for partition in result["partitions"])

    def create_partitions(self, topic: str, total: int) -> None:
        try:
            self._admin.create_partitions({topic: total})
        except KafkaError as error:
            raise _error_response(error) from error

    def describe_configs(self, topic: str) -> dict[str, str | None]:
        return self._describe(ConfigResource(ConfigResourceType.TOPIC, topic))

    def describe_log_dirs(self) -> dict[str, dict[tuple[str, int], int]]:
        """Return the size of each replica, by log directory."""
        (broker,) = self._admin.describe_log_dirs()
        return {
            result["log_dir"]: {
                (topic["name"], part["partition_index"]): part["partition_size"]
                for topic in result["topics"]
                for part in topic["partitions"]
            }
            for result in broker["log_dirs"]
        }

    def alter_replica_log_dirs(self, topic: str, expected: Mapping[int, str]) -> dict[int, int]:
        """Send AlterReplicaLogDirs to the only broker; return the error code of each partition."""
        (broker,) = self._admin.describe_cluster()["brokers"]
        requested = {(topic, partition, broker["broker_id"]): path for partition, path in expected.items()}
        response = self._admin.alter_replica_log_dirs(requested)
        return {replica.partition: error.errno for replica, error in response.items()}

    def describe_broker_configs(self) -> dict[str, str | None]:
        first = min(broker["broker_id"] for broker in self._admin.describe_cluster()["brokers"])
        return self._describe(ConfigResource(ConfigResourceType.BROKER, str(first)))

    def _describe(self, resource: ConfigResource) -> dict[str, str | None]:
        response = self._admin.describe_configs([resource], config_filter="all")
        (entries,) = response[resource.resource_type.name.lower()].values()
        return {name: entry["value"] for name, entry in entries.items()}

    def alter_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict(configs))
        response = self._admin.alter_configs([resource], raise_on_unknown=False)
        words = response["topic"][topic]
        if words != "OK":
            # The client keeps only the text of the error: "[Error 40] InvalidConfigurationError: …".
            raise ErrorResponse(int(words.partition("[Error ")[2].partition("]")[0]), words)

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
            "compression_type": None if compression == "none" else compression,
            "acks": acks,
            "enable_idempotence": idempotent,
            "max_request_size": bytes_max,
        }
        settings = {name: value for name, value in chosen.items() if value is not None}
        if idempotent is None and acks not in (None, -1):
            settings["enable_idempotence"] = False
        key = tuple(settings.items())
        if key not in self._producers:
            self._producers[key] = KafkaPythonProducerHandle({**self._to, "linger_ms": 5, **settings})
        try:
            return self._producers[key].send_all(topic, messages)
        except ErrorResponse:
            # Some clients cannot use an idempotent producer any more once a record was rejected.
            self._producers.pop(key).close()
            raise

    def open_producer(self) -> KafkaPythonProducerHandle:
        return KafkaPythonProducerHandle(dict(self._to))

    def open_reader(
        self,
        topic: str,
        partitions: Sequence[int] = (0,),
        *,
        start: int = EARLIEST,
        reset: str = "earliest",
        wait_ms: int | None = None,
    ) -> KafkaPythonReader:
        settings: dict[str, Any] = {**self._to, "auto_offset_reset": reset, "enable_auto_commit": False}
        if wait_ms is not None:
            settings["fetch_max_wait_ms"] = wait_ms
        consumer = KafkaConsumer(**settings)
        assignment = [TopicPartition(topic, partition) for partition in partitions]
        consumer.assign(assignment)
        if start == EARLIEST:
            consumer.seek_to_beginning(*assignment)
        elif start == LATEST:
            consumer.seek_to_end(*assignment)
            for item in assignment:
                consumer.position(item)
        else:
            for item in assignment:
                consumer.seek(item, start)
        return KafkaPythonReader(consumer)

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        at = TopicPartition(topic, partition)
        result = self._offsets_consumer.offsets_for_times({at: timestamp_ms})[at]
        return None if result is None else int(result.offset)

    def offsets(self, topic: str, partition: int = 0) -> tuple[int, int]:
        at = TopicPartition(topic, partition)
        return self._offsets_consumer.beginning_offsets([at])[at], self._offsets_consumer.end_offsets([at])[
            at
        ]

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        at = TopicPartition(topic, partition)
        try:
            return int(self._admin.delete_records({at: before})[at]["low_watermark"])
        except KafkaError as error:
            raise _error_response(error) from error
