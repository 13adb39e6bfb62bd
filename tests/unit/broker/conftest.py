"""Fixtures of the broker tests: a broker in memory, a client, and shorthands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from odradek.model.errors import ErrorCode
from odradek.ports.files import FileSlice
from odradek.records import codec
from odradek.records.batch import BatchBuilder, Record
from odradek.testing.broker import Client, MemoryBroker, MemoryCluster, running_broker
from odradek.testing.clock import run_virtually
from odradek.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PRODUCE, FETCH, CREATE_TOPICS = 0, 1, 19


def batch(*values: bytes, timestamp: int = 1000, **options: Any) -> bytearray:
    builder = BatchBuilder(**options)
    for index, value in enumerate(values):
        builder.append(timestamp + index, None, value)
    return bytearray(builder.build())


class BrokerHarness:
    """Running broker, a client connected to it, and shorthands."""

    def __init__(self, cluster: MemoryCluster, broker: MemoryBroker, client: Client) -> None:
        self.cluster = cluster
        self.memory_broker = broker
        self.broker = broker.broker
        self.client = client

    async def request(self, api_key: int, version: int, message: Any) -> Any:
        return await self.client.request(api_key, version, message)

    def topic_id(self, topic: str) -> bytes:
        metadata = self.broker.metadata_cache.topic(topic)
        assert metadata is not None
        return metadata.topic_id

    async def create(
        self,
        topic: str,
        partitions: int = 1,
        settings: Mapping[str, str] | None = None,
        assignments: Mapping[int, list[int]] | None = None,
    ) -> ErrorCode:
        manual_assignments = [
            CreatableReplicaAssignment(number, ids) for number, ids in (assignments or {}).items()
        ]
        counts = (-1, -1) if manual_assignments else (partitions, 1)
        configs = [CreatableTopicConfig(name, value) for name, value in (settings or {}).items()]
        new_topic = CreatableTopic(topic, *counts, manual_assignments, configs)
        response = await self.request(CREATE_TOPICS, 7, CreateTopicsRequest([new_topic]))
        return ErrorCode(response.topics[0].error_code)

    async def produce(
        self,
        topic: str,
        *values: bytes,
        partition: int = 0,
        acks: int = -1,
        version: int = 11,
        transactional_id: str | None = None,
        **options: Any,
    ) -> Any:
        """Append one batch; return the partition's entry of the response."""
        data = [TopicProduceData(topic, [PartitionProduceData(partition, batch(*values, **options))])]
        response = await self.request(PRODUCE, version, ProduceRequest(transactional_id, acks, 30_000, data))
        return response.responses[0].partition_responses[0]

    def fetch_request(
        self, topic: str, offset: int = 0, *, partition: int = 0, version: int = 17, **options: Any
    ) -> FetchRequest:
        part = FetchPartition(
            partition, fetch_offset=offset, partition_max_bytes=options.pop("partition_max_bytes", 1 << 20)
        )
        requested = FetchTopic(topic=topic, partitions=[part])
        metadata = self.broker.metadata_cache.topic(topic)
        if version >= 13 and metadata is not None:
            requested.topic_id = metadata.topic_id
        options.setdefault("min_bytes", 1)
        options.setdefault("max_wait_ms", 0)
        options.setdefault("max_bytes", 1 << 24)
        return FetchRequest(topics=[requested], **options)

    async def fetch(self, topic: str, offset: int = 0, *, version: int = 17, **options: Any) -> Any:
        """Fetch one partition; return its entry of the response."""
        request = self.fetch_request(topic, offset, version=version, **options)
        response = await self.request(FETCH, version, request)
        return response.responses[0].partitions[0]

    async def values(self, topic: str, offset: int = 0, **options: Any) -> list[bytes | None]:
        """Return all readable values from an offset on."""
        result: list[bytes | None] = []
        while True:
            entry = await self.fetch(topic, offset, **options)
            assert entry.error_code == 0
            records = decode(entry.records)
            if not records:
                return result
            result += [record.value for record in records if record.offset >= offset]
            offset = records[-1].offset + 1


def decode(records: Any) -> list[Record]:
    data = records.read() if isinstance(records, FileSlice) else bytes(records or b"")
    return codec.decode(data)


Scenario = Callable[[BrokerHarness], Awaitable[None]]


@pytest.fixture(scope="session")
def run_scenario() -> Callable[..., None]:
    """Run a scenario against a new broker."""

    def run(scenario: Scenario, settings: Mapping[str, str] | None = None, **options: Any) -> None:
        async def main() -> None:
            async with running_broker(settings, **options) as (cluster, broker):
                await scenario(BrokerHarness(cluster, broker, await broker.connect()))

        run_virtually(main)

    return run


@pytest.fixture(scope="session")
def run_with_restarts() -> Callable[..., None]:
    """Run a scenario that starts and stops brokers on the same files."""

    def run(scenario: Callable[..., Awaitable[None]]) -> None:
        async def main() -> None:
            cluster = MemoryCluster()

            async def start_broker(settings: Mapping[str, str] | None = None) -> BrokerHarness:
                memory_broker = await cluster.start(settings)
                return BrokerHarness(cluster, memory_broker, await memory_broker.connect())

            try:
                await scenario(cluster, start_broker)
            finally:
                await cluster.close()

        run_virtually(main)

    return run


@pytest.fixture(scope="session")
def make_batch() -> Callable[..., bytearray]:
    return batch


@pytest.fixture(scope="session")
def read_records() -> Callable[[Any], list[Record]]:
    return decode
