"""Consumers on virtual time with a broker in memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from tests.support.simulation.client_fixture import ADDRESS, client_environment

from odradek.client.consumer.consumer import Consumer
from odradek.model.ids import TopicPartition
from odradek.model.protocol_enums import Compression
from odradek.records.batch import BatchBuilder
from odradek.records.client.consumer import ConsumerRecord
from odradek.testing.broker import CLIENT_HOST, Client, MemoryBroker, MemoryCluster
from odradek.testing.clock import WALL_START_MS, run_virtually
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PRODUCE, CREATE_TOPICS, DELETE_RECORDS = 0, 19, 21
AUTHOR_HOST = "author"


def batch(*values: bytes | None, base_timestamp: int = WALL_START_MS, **fields: Any) -> bytes:
    """Encode a batch of records with these values; each key is its index."""
    builder = BatchBuilder(**fields)
    for index, value in enumerate(values):
        builder.append(base_timestamp + index, b"k%d" % index, value, [("h", b"%d" % index)])
    return bytes(builder.build())


class ConsumerFixture:
    """A broker, a client that writes to it, and consumers; nothing may be left at the end."""

    def __init__(self, memory: MemoryCluster, broker: MemoryBroker) -> None:
        self.memory = memory
        self.broker = broker
        self.consumers: list[Consumer] = []
        self._author: Client | None = None

    def consumer(self, **options: Any) -> Consumer:
        environment = client_environment(self.memory.network, self.memory.clock)
        consumer = Consumer(**{"bootstrap_servers": ADDRESS, "environment": environment, **options})
        self.consumers.append(consumer)
        return consumer

    def reader(self, *partitions: TopicPartition, **options: Any) -> Consumer:
        """Return a consumer of these partitions, from the earliest offset."""
        consumer = self.consumer(**{"auto_offset_reset": "earliest", **options})
        consumer.assign(partitions)
        return consumer

    async def author(self) -> Client:
        if self._author is None or not self._author.is_open:
            self._author = await self.broker.connect(host=AUTHOR_HOST)
        return self._author

    async def ask(self, api_key: int, version: int, request: Any) -> Any:
        return await (await self.author()).request(api_key, version, request)

    async def create(self, topic: str, partitions: int = 1) -> None:
        wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
        response = await self.ask(CREATE_TOPICS, 5, CreateTopicsRequest(topics=[wanted], timeout_ms=10_000))
        assert response.topics[0].error_code == 0, response.topics[0]

    async def write_batch(self, partition: TopicPartition, records: bytes) -> int:
        """Write a batch; return its base offset."""
        data = PartitionProduceData(index=partition.partition, records=bytearray(records))
        topic = TopicProduceData(name=partition.topic, partition_data=[data])
        request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[topic])
        response = await self.ask(PRODUCE, 8, request)
        partition_response = response.responses[0].partition_responses[0]
        assert partition_response.error_code == 0, partition_response
        return int(partition_response.base_offset)

    async def write(self, partition: TopicPartition, *values: bytes | None, **fields: Any) -> int:
        return await self.write_batch(partition, batch(*values, **fields))

    async def close(self) -> None:
        for consumer in self.consumers:
            await consumer.close()
        if self._author is not None:
            self._author.close()
        assert [
            connection.peer
            for connection in self.memory.network.connections
            if connection.host == CLIENT_HOST
        ] == []


def play(
    scenario: Callable[[ConsumerFixture], Awaitable[None]],
    settings: Mapping[str, str] | None = None,
    **fields: Any,
) -> None:
    """Run a scenario on a new broker, or on several in turn."""

    async def main() -> None:
        memory = MemoryCluster(**{"seed": 0, **fields})
        try:
            stage = ConsumerFixture(memory, await memory.start(settings))
            try:
                await scenario(stage)
            finally:
                await stage.close()
                await stage.broker.stop()
        finally:
            await memory.close()

    run_virtually(main)


async def read_some(consumer: Consumer, count: int, timeout_s: float = 5.0) -> list[ConsumerRecord]:
    """Poll until ``count`` records were received, or the timeout."""
    records: list[ConsumerRecord] = []
    while len(records) < count:
        polled = await consumer.poll(timeout_s)
        if not polled:
            break
        records += polled
    return records


def values_of(records: Sequence[ConsumerRecord]) -> list[bytes | None]:
    return [record.value for record in records]


COMPRESSIONS = tuple(Compression)
