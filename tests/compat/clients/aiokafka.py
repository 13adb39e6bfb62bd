"""aiokafka: the asyncio client, run on an event loop in its own thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError
from tests.compat.clients.interface import EARLIEST, LATEST, ErrorResponse, Message, Received
from tests.support.aiokafka_consumer import stop_consumer

SECONDS_MAX = 30
REPLICAS_MAX = 3
T = TypeVar("T")


class LoopThread:
    """Event loop in a thread, for calls from outside."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], seconds_max: float = SECONDS_MAX + 30) -> T:
        """Run a coroutine and return its result; the client's errors become ErrorResponse."""
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds_max)
        except KafkaError as error:
            raise ErrorResponse(getattr(error, "errno", -1000), repr(error)) from error

    def close(self) -> None:
        """Stop the loop and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class AiokafkaReader:
    def __init__(self, loop: LoopThread, consumer: AIOKafkaConsumer) -> None:
        self._loop = loop
        self._consumer = consumer

    def read(self, count: int, within_seconds: float = 20) -> list[Received]:
        return self._loop.run(self._read(count, within_seconds), within_seconds + 30)

    async def _read(self, count: int, within_seconds: float) -> list[Received]:
        result: list[Received] = []
        deadline = time.monotonic() + within_seconds
        while len(result) < count and (left := deadline - time.monotonic()) > 0:
            polled = await self._consumer.getmany(
                timeout_ms=int(left * 1000) + 1, max_records=count - len(result)
            )
            for records in polled.values():
                result += [_received(record) for record in records]
        return result

    def close(self) -> None:
        self._loop.run(stop_consumer(self._consumer))


def _received(record: Any) -> Received:
    return Received(
        record.partition, record.offset, record.key, record.value, tuple(record.headers), record.timestamp
    )


class AiokafkaProducerHandle:
    def __init__(self, loop: LoopThread, settings: dict[str, Any]) -> None:
        self._loop = loop
        self._producer = loop.run(self._start(settings))

    @staticmethod
    async def _start(settings: dict[str, Any]) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(**settings)
        await producer.start()
        return producer

    async def _send_all(self, topic: str, messages: Sequence[Message]) -> list[int]:
        futures = [
            await self._producer.send(
                topic,
                value=message.value,
                key=message.key,
                headers=list(message.headers),
                partition=message.partition,
                timestamp_ms=message.timestamp_ms,
            )
            for message in messages
        ]
        sent = await asyncio.wait_for(asyncio.gather(*futures), SECONDS_MAX)
        # With acks=0 aiokafka has no offset.
        return [-1 if item is None else item.offset for item in sent]

    def send_all(self, topic: str, messages: Sequence[Message]) -> list[int]:
        return self._loop.run(self._send_all(topic, messages))

    def send(self, topic: str, message: Message) -> int:
        return self.send_all(topic, [message])[0]

    def close(self) -> None:
        self._loop.run(self._producer.stop())


class Aiokafka:
    name = "aiokafka"

    def __init__(self, bootstrap: str) -> None:
        self._to = {"bootstrap_servers": bootstrap}
        self._replicas = min(REPLICAS_MAX, len(bootstrap.split(",")))
        self._loop = LoopThread()
        self._admin = self._loop.run(self._start_admin())
        self._producers: dict[tuple[Any, ...], AiokafkaProducerHandle] = {}

    async def _start_admin(self) -> AIOKafkaAdminClient:
        admin = AIOKafkaAdminClient(**self._to)
        await admin.start()
        return admin

    def close(self) -> None:
        for producer in self._producers.values():
            producer.close()
        self._loop.run(self._admin.close())
        self._loop.close()

    def create_topic(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        # This client does not accept -1, the default of the broker.
        new = NewTopic(topic, partitions, self._replicas, topic_configs=dict(configs or {}))
        response = self._loop.run(self._admin.create_topics([new]))
        for _, code, *words in response.topic_errors:
            if code:
                raise ErrorResponse(code, words)

    def delete_topic(self, topic: str) -> None:
        response = self._loop.run(self._admin.delete_topics([topic]))
        for _, code in response.topic_error_codes:
            if code:
                raise ErrorResponse(code)

    def list_topics(self) -> set[str]:
        return set(self._loop.run(self._admin.list_topics()))

    def partitions_of(self, topic: str) -> list[int]:
        (result,) = self._loop.run(self._admin.describe_topics([topic]))
        if result["error_code"]:
            raise ErrorResponse(result["error_code"])
        return sorted(partition["partition"] for partition in result["partitions"])

    def create_partitions(self, topic: str, total: int) -> None:
        self._loop.run(self._admin.create_partitions({topic: NewPartitions(total)}))

    def describe_configs(self, topic: str) -> dict[str, str | None]:
        return self._describe(ConfigResource(ConfigResourceType.TOPIC, topic))

    def describe_broker_configs(self) -> dict[str, str | None]:
        brokers = self._loop.run(self._admin.describe_cluster())["brokers"]
        first = min(broker["node_id"] for broker in brokers)
        return self._describe(ConfigResource(ConfigResourceType.BROKER, str(first)))

    def _describe(self, resource: ConfigResource) -> dict[str, str | None]:
        (response,) = self._loop.run(self._admin.describe_configs([resource]))
        ((code, words, _, _, entries),) = response.resources
        if code:
            raise ErrorResponse(code, words)
        return {entry[0]: entry[1] for entry in entries}

    def alter_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict(configs))
        (response,) = self._loop.run(self._admin.alter_configs([resource]))
        for code, words, *_ in response.resources:
            if code:
                raise ErrorResponse(code, words)

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
        key = tuple(settings.items())
        if key not in self._producers:
            self._producers[key] = AiokafkaProducerHandle(
                self._loop, {**self._to, "linger_ms": 5, **settings}
            )
        try:
            return self._producers[key].send_all(topic, messages)
        except ErrorResponse:
            # Some clients cannot use an idempotent producer any more once a record was rejected.
            self._producers.pop(key).close()
            raise

    def open_producer(self) -> AiokafkaProducerHandle:
        return AiokafkaProducerHandle(self._loop, dict(self._to))

    async def _start_consumer(
        self, settings: dict[str, Any], assignment: list[TopicPartition], start: int
    ) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(**settings)
        await consumer.start()
        consumer.assign(assignment)
        if start == EARLIEST:
            await consumer.seek_to_beginning(*assignment)
        elif start == LATEST:
            await consumer.seek_to_end(*assignment)
        else:
            for item in assignment:
                consumer.seek(item, start)
        return consumer

    def open_reader(
        self,
        topic: str,
        partitions: Sequence[int] = (0,),
        *,
        start: int = EARLIEST,
        reset: str = "earliest",
        wait_ms: int | None = None,
    ) -> AiokafkaReader:
        settings: dict[str, Any] = {**self._to, "auto_offset_reset": reset, "enable_auto_commit": False}
        if wait_ms is not None:
            settings["fetch_max_wait_ms"] = wait_ms
        assignment = [TopicPartition(topic, partition) for partition in partitions]
        return AiokafkaReader(self._loop, self._loop.run(self._start_consumer(settings, assignment, start)))

    async def _query(self, method: str, what: Any) -> Any:
        consumer = AIOKafkaConsumer(**self._to)
        await consumer.start()
        try:
            return await getattr(consumer, method)(what)
        finally:
            await stop_consumer(consumer)

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        at = TopicPartition(topic, partition)
        result = self._loop.run(self._query("offsets_for_times", {at: timestamp_ms}))[at]
        return None if result is None else int(result.offset)

    def offsets(self, topic: str, partition: int = 0) -> tuple[int, int]:
        at = TopicPartition(topic, partition)
        low = self._loop.run(self._query("beginning_offsets", [at]))[at]
        return low, self._loop.run(self._query("end_offsets", [at]))[at]

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        at = TopicPartition(topic, partition)
        return int(self._loop.run(self._admin.delete_records({at: RecordsToDelete(before)}))[at])
