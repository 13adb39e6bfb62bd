"""Our own clients behind the common interface: blocking and asyncio."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tests.clients.client_apis import AsyncioClients, BlockingClients, Clients
from tests.compat.clients.interface import (
    DEFAULT_REPLICAS,
    EARLIEST,
    LATEST,
    ErrorResponse,
    Message,
    Received,
)

from odradek.client.admin.configs import ConfigResource
from odradek.client.admin.topics import NewTopic
from odradek.model.client_errors import ClientError, OffsetOutOfRange, PartialFailure
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.model.protocol_enums import ResourceType

SECONDS_MAX = 30


@contextmanager
def _convert_errors() -> Iterator[None]:
    """Convert our client errors to ErrorResponse."""
    try:
        yield
    except PartialFailure as several:
        raise _error_response(next(iter(several.errors.values()))) from several
    except ClientError as error:
        raise _error_response(error) from error


def _error_response(error: Exception) -> ErrorResponse:
    if isinstance(error, OffsetOutOfRange):
        return ErrorResponse(ErrorCode.OFFSET_OUT_OF_RANGE, error)
    code = getattr(error, "code", None)
    if code is None:
        raise error
    return ErrorResponse(code, error)


class OdradekReader:
    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    def read(self, count: int, within_seconds: float = 20) -> list[Received]:
        result: list[Received] = []
        deadline = time.monotonic() + within_seconds
        with _convert_errors():
            while len(result) < count and (left := deadline - time.monotonic()) > 0:
                polled = self._consumer.poll(left, max_records=count - len(result))
                result += [
                    Received(item.partition, item.offset, item.key, item.value, item.headers, item.timestamp)
                    for item in polled
                ]
        return result

    def close(self) -> None:
        self._consumer.close()


class OdradekProducerHandle:
    def __init__(self, producer: Any) -> None:
        self._producer = producer

    def send_all(self, topic: str, messages: Sequence[Message]) -> list[int]:
        with _convert_errors():
            sent = [
                self._producer.send(
                    topic,
                    message.value,
                    message.key,
                    headers=message.headers or None,
                    partition=message.partition,
                    timestamp_ms=message.timestamp_ms,
                )
                for message in messages
            ]
            return [delivery.result(SECONDS_MAX).offset for delivery in sent]

    def send(self, topic: str, message: Message) -> int:
        return self.send_all(topic, [message])[0]

    def close(self) -> None:
        self._producer.close()


class _Odradek:
    """Adapter of the blocking or asyncio clients."""

    def __init__(self, bootstrap: str, clients: Clients) -> None:
        self._bootstrap = bootstrap
        self._clients = clients
        self._admin = clients.admin(bootstrap_servers=bootstrap)
        self._producers: dict[tuple[Any, ...], OdradekProducerHandle] = {}

    def close(self) -> None:
        self._clients.close()

    def create_topic(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        with _convert_errors():
            self._admin.create_topics([NewTopic(topic, partitions, DEFAULT_REPLICAS, dict(configs or {}))])

    def delete_topic(self, topic: str) -> None:
        with _convert_errors():
            self._admin.delete_topics([topic])

    def list_topics(self) -> set[str]:
        return set(self._admin.list_topics(include_internal=True))

    def partitions_of(self, topic: str) -> list[int]:
        with _convert_errors():
            described = self._admin.describe_topics([topic])[topic]
        return sorted(partition.partition for partition in described.partitions)

    def create_partitions(self, topic: str, total: int) -> None:
        with _convert_errors():
            self._admin.create_partitions({topic: total})

    def describe_configs(self, topic: str) -> dict[str, str | None]:
        return self._describe(ConfigResource(ResourceType.TOPIC, topic))

    def describe_broker_configs(self) -> dict[str, str | None]:
        first = min(node.id for node in self._admin.describe_cluster().nodes)
        return self._describe(ConfigResource(ResourceType.BROKER, str(first)))

    def _describe(self, resource: ConfigResource) -> dict[str, str | None]:
        with _convert_errors():
            entries = self._admin.describe_configs([resource])[resource]
        return {name: entry.value for name, entry in entries.items()}

    def alter_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        with _convert_errors():
            self._admin.alter_configs({ConfigResource(ResourceType.TOPIC, topic): configs})

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
            "max.request.size": bytes_max,
        }
        settings = {name: value for name, value in chosen.items() if value is not None}
        key = tuple(settings.items())
        if key not in self._producers:
            self._producers[key] = self._producing({"linger.ms": 5, **settings})
        return self._producers[key].send_all(topic, messages)

    def open_producer(self) -> OdradekProducerHandle:
        return self._producing({})

    def _producing(self, settings: dict[str, Any]) -> OdradekProducerHandle:
        return OdradekProducerHandle(
            self._clients.producer({"bootstrap.servers": self._bootstrap, **settings})
        )

    def open_reader(
        self,
        topic: str,
        partitions: Sequence[int] = (0,),
        *,
        start: int = EARLIEST,
        reset: str = "earliest",
        wait_ms: int | None = None,
    ) -> OdradekReader:
        settings: dict[str, Any] = {"bootstrap.servers": self._bootstrap, "auto.offset.reset": reset}
        if wait_ms is not None:
            settings["fetch.max.wait.ms"] = wait_ms
        consumer = self._clients.consumer(settings)
        assigned = [TopicPartition(topic, partition) for partition in partitions]
        consumer.assign(assigned)
        if start == EARLIEST:
            consumer.seek_to_beginning(*assigned)
        elif start == LATEST:
            consumer.seek_to_end(*assigned)
        for item in assigned:
            if start >= 0:
                consumer.seek(item, start)
            else:
                consumer.position(item)
        return OdradekReader(consumer)

    def _offsets_consumer(self) -> Any:
        return self._clients.consumer({"bootstrap.servers": self._bootstrap})

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        consumer, at = self._offsets_consumer(), TopicPartition(topic, partition)
        with _convert_errors():
            result = consumer.offsets_for_times({at: timestamp_ms})[at]
        consumer.close()
        return None if result is None else int(result.offset)

    def offsets(self, topic: str, partition: int = 0) -> tuple[int, int]:
        consumer, at = self._offsets_consumer(), TopicPartition(topic, partition)
        with _convert_errors():
            low, high = consumer.beginning_offsets([at])[at], consumer.end_offsets([at])[at]
        consumer.close()
        return low, high

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        at = TopicPartition(topic, partition)
        with _convert_errors():
            return int(self._admin.delete_records({at: before})[at])


class OdradekBlocking(_Odradek):
    name = "odradek"

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap, BlockingClients())


class OdradekAsyncio(_Odradek):
    name = "odradek.aio"

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap, AsyncioClients())
