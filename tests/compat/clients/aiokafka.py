"""aiokafka: the asyncio client, driven from a loop in a thread of its own."""

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
from tests.compat.clients.interface import EARLIEST, LATEST, Message, Received, Refused
from tests.support.aiokafka_consumer import stop_consumer

SECONDS_MAX = 30
T = TypeVar("T")


class LoopThread:
    """An event loop in a thread, for calls from outside it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], seconds_max: float = SECONDS_MAX + 30) -> T:
        """Run a coroutine to its end and give its result; the client's errors come out as Refused."""
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds_max)
        except KafkaError as error:
            raise Refused(getattr(error, "errno", -1000), repr(error)) from error

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
        found: list[Received] = []
        deadline = time.monotonic() + within_seconds
        while len(found) < count and (left := deadline - time.monotonic()) > 0:
            polled = await self._consumer.getmany(
                timeout_ms=int(left * 1000) + 1, max_records=count - len(found)
            )
            for records in polled.values():
                found += [_received(record) for record in records]
        return found

    def close(self) -> None:
        self._loop.run(stop_consumer(self._consumer))


def _received(record: Any) -> Received:
    return Received(
        record.partition, record.offset, record.key, record.value, tuple(record.headers), record.timestamp
    )


class AiokafkaProducing:
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
        # With acks=0 aiokafka has nothing to tell.
        return [-1 if one is None else one.offset for one in sent]

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
        self._loop = LoopThread()
        self._admin = self._loop.run(self._start_admin())
        self._producers: dict[tuple[Any, ...], AiokafkaProducing] = {}

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
        new = NewTopic(topic, partitions, 1, topic_configs=dict(configs or {}))
        answer = self._loop.run(self._admin.create_topics([new]))
        for _, code, *words in answer.topic_errors:
            if code:
                raise Refused(code, words)

    def delete_topic(self, topic: str) -> None:
        answer = self._loop.run(self._admin.delete_topics([topic]))
        for _, code in answer.topic_error_codes:
            if code:
                raise Refused(code)

    def list_topics(self) -> set[str]:
        return set(self._loop.run(self._admin.list_topics()))

    def partitions_of(self, topic: str) -> list[int]:
        (found,) = self._loop.run(self._admin.describe_topics([topic]))
        if found["error_code"]:
            raise Refused(found["error_code"])
        return sorted(partition["partition"] for partition in found["partitions"])

    def create_partitions(self, topic: str, total: int) -> None:
        self._loop.run(self._admin.create_partitions({topic: NewPartitions(total)}))

    def describe_configs(self, topic: str) -> dict[str, str | None]:
        return self._describe(ConfigResource(ConfigResourceType.TOPIC, topic))

    def describe_broker_configs(self) -> dict[str, str | None]:
        (broker,) = self._loop.run(self._admin.describe_cluster())["brokers"]
        return self._describe(ConfigResource(ConfigResourceType.BROKER, str(broker["node_id"])))

    def _describe(self, resource: ConfigResource) -> dict[str, str | None]:
        (answer,) = self._loop.run(self._admin.describe_configs([resource]))
        ((code, words, _, _, entries),) = answer.resources
        if code:
            raise Refused(code, words)
        return {entry[0]: entry[1] for entry in entries}

    def alter_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict(configs))
        (answer,) = self._loop.run(self._admin.alter_configs([resource]))
        for code, words, *_ in answer.resources:
            if code:
                raise Refused(code, words)

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
            self._producers[key] = AiokafkaProducing(self._loop, {**self._to, "linger_ms": 5, **settings})
        try:
            return self._producers[key].send_all(topic, messages)
        except Refused:
            # Some clients give an idempotent producer up for good once a record of it was refused.
            self._producers.pop(key).close()
            raise

    def producing(self) -> AiokafkaProducing:
        return AiokafkaProducing(self._loop, dict(self._to))

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
            for one in assignment:
                consumer.seek(one, start)
        return consumer

    def reading(
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

    async def _ask(self, question: str, what: Any) -> Any:
        consumer = AIOKafkaConsumer(**self._to)
        await consumer.start()
        try:
            return await getattr(consumer, question)(what)
        finally:
            await stop_consumer(consumer)

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        at = TopicPartition(topic, partition)
        found = self._loop.run(self._ask("offsets_for_times", {at: timestamp_ms}))[at]
        return None if found is None else int(found.offset)

    def offsets(self, topic: str, partition: int = 0) -> tuple[int, int]:
        at = TopicPartition(topic, partition)
        low = self._loop.run(self._ask("beginning_offsets", [at]))[at]
        return low, self._loop.run(self._ask("end_offsets", [at]))[at]

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        at = TopicPartition(topic, partition)
        return int(self._loop.run(self._admin.delete_records({at: RecordsToDelete(before)}))[at])
