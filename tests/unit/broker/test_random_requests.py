"""Random requests to a broker in memory, compared with a simple model."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odradek.model.errors import ErrorCode
from odradek.ports.files import FileSlice
from odradek.records import codec
from odradek.records.batch import BatchBuilder
from odradek.testing.broker import MemoryCluster
from odradek.testing.clock import run_virtually
from odradek.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.metadata import MetadataRequest
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
TOPICS = ("a", "b", "c")


@dataclass
class Log:
    start: int = 0
    values: list[bytes] = field(default_factory=list)

    @property
    def end(self) -> int:
        return len(self.values)


class Model:
    """Model of a broker with replication factor 1."""

    def __init__(self) -> None:
        self.topics: dict[str, list[Log]] = {}

    def log(self, topic: str, partition: int) -> Log | None:
        logs = self.topics.get(topic, [])
        return logs[partition] if partition < len(logs) else None


class Duel:
    """Sends the same requests to a broker and a model."""

    def __init__(self, seed: int) -> None:
        self.cluster = MemoryCluster(seed, delay_max_ms=2, splits=True)
        self.model = Model()
        self.count = 0

    async def start(self) -> None:
        self.memory_broker = await self.cluster.start(
            {"auto.create.topics.enable": "false", "log.retention.ms": "-1"}
        )
        self.clients = [await self.memory_broker.connect(f"client{number}") for number in range(2)]

    async def restart(self, topic: str, partition: int, number: int) -> None:
        if number % 3 == 0:
            await self.memory_broker.stop()
            await self.start()

    async def request(self, api_key: int, version: int, message: Any) -> Any:
        self.count += 1
        return await self.clients[self.count % 2].request(api_key, version, message)

    async def create(self, topic: str, partition: int, number: int) -> None:
        configs = [CreatableTopicConfig("segment.bytes", "500")]
        request = CreatableTopic(topic, partition + 1, 1, [], configs)
        response = await self.request(19, number % 8, CreateTopicsRequest([request]))
        expected = ErrorCode.TOPIC_ALREADY_EXISTS if topic in self.model.topics else ErrorCode.NONE
        assert response.topics[0].error_code == expected
        self.model.topics.setdefault(topic, [Log() for _ in range(partition + 1)])

    async def delete(self, topic: str, partition: int, number: int) -> None:
        if number % 4:
            return
        response = await self.request(20, 6, DeleteTopicsRequest([DeleteTopicState(topic)], [], 5000))
        expected = ErrorCode.NONE if self.model.topics.pop(topic, None) else UNKNOWN
        assert response.responses[0].error_code == expected

    async def grow(self, topic: str, partition: int, number: int) -> None:
        count = partition + 1
        request = CreatePartitionsTopic(topic, count, None)
        response = await self.request(37, number % 4, CreatePartitionsRequest([request], 5000))
        logs = self.model.topics.get(topic)
        if logs is None:
            expected = UNKNOWN
        elif count <= len(logs):
            expected = ErrorCode.INVALID_PARTITIONS
        else:
            expected = ErrorCode.NONE
            logs += [Log() for _ in range(count - len(logs))]
        assert response.results[0].error_code == expected

    async def produce(self, topic: str, partition: int, number: int) -> None:
        values = [b"%d.%d" % (self.count, index) for index in range(1 + number % 3)]
        builder = BatchBuilder()
        for value in values:
            builder.append(1000 * (self.count + 1), None, value)
        data = TopicProduceData(topic, [PartitionProduceData(partition, bytearray(builder.build()))])
        acks = -1 if number % 2 else 1
        response = await self.request(0, 3 + number % 9, ProduceRequest(None, acks, 1000, [data]))
        entry = response.responses[0].partition_responses[0]
        log = self.model.log(topic, partition)
        if log is None:
            assert entry.error_code == UNKNOWN
        else:
            assert (entry.error_code, entry.base_offset) == (0, log.end)
            log.values += values

    async def fetch(self, topic: str, partition: int, number: int) -> None:
        version = 4 + number % 14
        log = self.model.log(topic, partition)
        offset = number % (log.end + 2) if log is not None else 0
        part = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=1 + number * 7)
        requested = FetchTopic(topic, self._id(topic), [part])
        response = await self.request(1, version, FetchRequest(max_bytes=1 << 20, topics=[requested]))
        entry = response.responses[0].partitions[0]
        if log is None:
            unknown_id = version >= 13 and topic not in self.model.topics
            assert entry.error_code == (ErrorCode.UNKNOWN_TOPIC_ID if unknown_id else UNKNOWN)
        elif not log.start <= offset <= log.end:
            assert entry.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            assert (entry.error_code, entry.high_watermark) == (0, log.end)
            records = [record for record in _decode(entry.records) if record.offset >= offset]
            assert [record.offset for record in records] == list(range(offset, offset + len(records)))
            assert [record.value for record in records] == log.values[offset : offset + len(records)]
            assert bool(records) == (offset < log.end), "every read makes progress"

    async def offsets(self, topic: str, partition: int, number: int) -> None:
        timestamp = (-1, -2)[number % 2]
        requested = ListOffsetsTopic(topic, [ListOffsetsPartition(partition, timestamp=timestamp)])
        response = await self.request(2, 1 + number % 9, ListOffsetsRequest(-1, 0, [requested]))
        entry = response.topics[0].partitions[0]
        log = self.model.log(topic, partition)
        if log is None:
            assert entry.error_code == UNKNOWN
        else:
            assert (entry.error_code, entry.offset) == (0, log.end if timestamp == -1 else log.start)

    async def delete_records(self, topic: str, partition: int, number: int) -> None:
        log = self.model.log(topic, partition)
        offset = number % (log.end + 2) if log is not None else 0
        requested = DeleteRecordsTopic(topic, [DeleteRecordsPartition(partition, offset)])
        response = await self.request(21, number % 3, DeleteRecordsRequest([requested], 1000))
        entry = response.topics[0].partitions[0]
        if log is None:
            assert entry.error_code == UNKNOWN
        elif offset > log.end:
            assert entry.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            log.start = max(log.start, offset)
            assert (entry.error_code, entry.low_watermark) == (0, log.start)

    async def metadata(self, topic: str, partition: int, number: int) -> None:
        response = await self.request(3, 1 + number % 12, MetadataRequest(None))
        result = {topic.name: len(topic.partitions) for topic in response.topics}
        assert result == {name: len(logs) for name, logs in self.model.topics.items()}

    async def wait(self, topic: str, partition: int, number: int) -> None:
        await asyncio.sleep(number)

    def _id(self, topic: str) -> bytes:
        result = self.memory_broker.broker.metadata_cache.topic(topic)
        return b"?" * 16 if result is None else result.topic_id


def _decode(records: Any) -> list[Any]:
    data = records.read() if isinstance(records, FileSlice) else bytes(records or b"")
    return codec.decode(data)


ACTIONS = (
    *("produce",) * 5,
    *("fetch",) * 4,
    "create",
    "create",
    "delete",
    "grow",
    "offsets",
    "delete_records",
    "metadata",
    "wait",
    "restart",
)
STEPS = st.lists(
    st.tuples(st.sampled_from(ACTIONS), st.sampled_from(TOPICS), st.integers(0, 2), st.integers(0, 120)),
    min_size=10,
    max_size=60,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 1000), steps=STEPS)
def test_random_requests_get_the_responses_of_a_model(seed, steps):
    async def main() -> None:
        duel = Duel(seed)
        try:
            await duel.start()
            await duel.create("a", 1, 7)
            for action, topic, partition, number in steps:
                await getattr(duel, action)(topic, partition, number)
            await duel.memory_broker.stop()
        finally:
            await duel.cluster.close()

    run_virtually(main)
