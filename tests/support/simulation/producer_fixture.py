"""Producers on virtual time with a broker in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tests.support.simulation.client_fixture import ADDRESS, client_environment

from odradek.client.producer.producer import Producer
from odradek.ports.files import FileSlice
from odradek.records import codec
from odradek.records.batch import Record
from odradek.testing.broker import CLIENT_HOST, Client, MemoryBroker, MemoryCluster
from odradek.testing.clock import run_virtually
from odradek.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

FETCH, CREATE_TOPICS = 1, 19
READER = "reader"


class ProducerFixture:
    """A broker, its producers, and the written records."""

    def __init__(self, memory: MemoryCluster, settings: Mapping[str, str] | None) -> None:
        self.memory = memory
        self._settings = settings
        self._broker: MemoryBroker | None = None
        self.producers: list[Producer] = []
        self._reader: Client | None = None

    async def start_broker(self) -> None:
        self._broker = await self.memory.start(self._settings)

    async def stop_broker(self) -> None:
        if self._broker is not None:
            broker, self._broker = self._broker, None
            self._reader = None
            await broker.stop()

    @property
    def clock(self) -> Any:
        return self.memory.clock

    def producer(self, **options: Any) -> Producer:
        environment = client_environment(self.memory.network, self.memory.clock)
        producer = Producer(environment=environment, bootstrap_servers=ADDRESS, **options)
        self.producers.append(producer)
        return producer

    async def ask(self, api_key: int, version: int, message: Any) -> Any:
        if self._reader is None or not self._reader.is_open:
            assert self._broker is not None
            self._reader = await self._broker.connect("reader", READER)
        return await self._reader.request(api_key, version, message)

    async def create(self, topic: str, partitions: int = 1, **settings: str) -> None:
        configs = [CreatableTopicConfig(name.replace("_", "."), value) for name, value in settings.items()]
        topic_request = CreatableTopic(topic, partitions, 1, [], configs)
        response = await self.ask(CREATE_TOPICS, 7, CreateTopicsRequest([topic_request]))
        assert response.topics[0].error_code == 0

    async def records(self, topic: str, partition: int = 0, offset: int = 0) -> list[Record]:
        """Return the records of a partition from an offset on."""
        records_found: list[Record] = []
        while True:
            part = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=1 << 20)
            asked = FetchTopic(topic=topic, partitions=[part])
            request = FetchRequest(topics=[asked], min_bytes=1, max_wait_ms=0, max_bytes=1 << 24)
            response = await self.ask(FETCH, 12, request)
            entry = response.responses[0].partitions[0]
            assert entry.error_code == 0
            data = entry.records
            plain = data.read() if isinstance(data, FileSlice) else bytes(data or b"")
            records = [record for record in codec.decode(plain) if record.offset >= offset]
            if not records:
                return records_found
            records_found += records
            offset = records[-1].offset + 1

    async def values(self, topic: str, partition: int = 0) -> list[bytes | None]:
        return [record.value for record in await self.records(topic, partition)]

    def cut_connections(self) -> None:
        """Reset all connections of producers."""
        self.memory.network.reset_all(CLIENT_HOST)

    async def close(self) -> None:
        for producer in self.producers:
            await producer.close(0)
        left = [
            connection.peer
            for connection in self.memory.network.connections
            if connection.host == CLIENT_HOST
        ]
        assert left == []
        names = {task.get_name() for task in asyncio.all_tasks()}
        assert not names & {"metadata", "close", "transaction request"}, names
        assert not [name for name in names if name.startswith("connect")], names


def run_with_producer(
    scenario: Callable[[ProducerFixture], Awaitable[None]],
    settings: Mapping[str, str] | None = None,
    **how: Any,
) -> None:
    """Run a scenario on a new broker; producers must leave no tasks or connections."""

    async def main() -> None:
        studio = ProducerFixture(MemoryCluster(**how), settings)
        await studio.start_broker()
        try:
            await scenario(studio)
            await studio.close()
        finally:
            await studio.stop_broker()
            await studio.memory.close()

    run_virtually(main)
