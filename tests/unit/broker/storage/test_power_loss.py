"""Power loss at any moment: flushed records survive, the rest is a prefix, topics survive.

Each seed runs several lives of one broker. In each, batches are appended with acks=all, some logs are
flushed, time passes, and then power is lost, at times with requests in flight. The next life must find, for
each partition, a prefix of the sent records, at least as long as the flushed part, one value per offset.
"""

import asyncio
import contextlib
from typing import Any

import pytest

from odradek.model.ids import TopicPartition
from odradek.ports.files import FileSlice
from odradek.records import codec
from odradek.records.batch import BatchBuilder
from odradek.testing.broker import ConnectionEnded, MemoryCluster
from odradek.testing.clock import run_virtually
from odradek.testing.entropy import SeededEntropy
from odradek.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PRODUCE, FETCH, CREATE_TOPICS, DELETE_RECORDS = 0, 1, 19, 21
LIVES = 4
STEPS_MAX = 40


class History:
    """Records sent to each partition, and how many of them must survive."""

    def __init__(self):
        self.sent: dict[TopicPartition, list[bytes]] = {}
        self.flushed: dict[TopicPartition, int] = {}
        self.starts: dict[TopicPartition, int] = {}

    def begin(self, topic, partitions):
        for number in range(partitions):
            self.sent.setdefault(TopicPartition(topic, number), [])


class PowerLossRun:
    def __init__(self, seed):
        self.randomness = SeededEntropy(seed)
        self.cluster = MemoryCluster(seed, delay_max_ms=3, splits=bool(seed % 2))
        self.history = History()
        self.number = 0

    async def live(self):
        self.broker = await self.cluster.start()
        self.client = await self.broker.connect()
        await self.check()
        if not self.history.sent:
            await self.create("orders", 2)
        for _ in range(self.randomness.below(STEPS_MAX)):
            await self.step()
        if self.randomness.below(2):
            self.send_and_leave()
            await asyncio.sleep(self.randomness.below(5) / 1000)
        await self.broker.kill()

    async def step(self):
        match self.randomness.below(10):
            case 0:
                await asyncio.sleep(self.randomness.below(100))
            case 1 | 2:
                await self.flush()
            case 3 if len(self.history.sent) < 8:
                await self.create(f"topic{len(self.history.sent)}", 1)
            case 4:
                await self.delete_records()
            case _:
                await self.produce()

    def pick(self):
        return list(self.history.sent)[self.randomness.below(len(self.history.sent))]

    async def create(self, topic, partitions):
        configs = [
            CreatableTopicConfig("segment.bytes", "2000"),
            CreatableTopicConfig("index.interval.bytes", "100"),
        ]
        request = CreatableTopic(topic, partitions, 1, [], configs)
        response = await self.client.request(CREATE_TOPICS, 7, CreateTopicsRequest([request]))
        assert response.topics[0].error_code == 0
        self.history.begin(topic, partitions)

    def batch_for(self, partition):
        builder = BatchBuilder()
        for _ in range(1 + self.randomness.below(4)):
            value = b"%d:%s" % (self.number, bytes(self.randomness.below(100)))
            self.number += 1
            builder.append(self.cluster.clock.wall_ms(), None, value)
            self.history.sent[partition].append(value)
        data = PartitionProduceData(partition.partition, bytearray(builder.build()))
        return ProduceRequest(None, -1, 1000, [TopicProduceData(partition.topic, [data])])

    async def produce(self):
        response = await self.client.request(PRODUCE, 11, self.batch_for(self.pick()))
        assert response.responses[0].partition_responses[0].error_code == 0

    def send_and_leave(self):
        """Send requests that are in flight at the power loss."""
        for _ in range(1 + self.randomness.below(5)):
            task = self.client.send(PRODUCE, 11, self.batch_for(self.pick()))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def flush(self):
        partition = self.pick()
        log = self.broker.broker._replica_manager.get_leader_partition(*partition).log
        end_offset = log.log_end_offset
        await log.flush()
        self.history.flushed[partition] = max(end_offset, self.history.flushed.get(partition, 0))

    async def delete_records(self):
        partition = self.pick()
        offset = self.randomness.below(len(self.history.sent[partition]) + 1)
        start = self.history.starts.get(partition, 0)
        part = DeleteRecordsTopic(partition.topic, [DeleteRecordsPartition(partition.partition, offset)])
        response = await self.client.request(DELETE_RECORDS, 2, DeleteRecordsRequest([part], 1000))
        assert response.topics[0].partitions[0].error_code == 0
        self.history.starts[partition] = max(start, offset)

    async def check(self):
        for partition, sent in self.history.sent.items():
            metadata_cache = self.broker.broker.metadata_cache.partition(*partition)
            assert metadata_cache is not None, f"{partition} was created and is missing"
            start, result = await self.read(partition)
            assert start <= self.history.starts.get(partition, 0)
            assert result == sent[start : start + len(result)], (
                f"{partition} is not a prefix of the sent records"
            )
            end = start + len(result)
            assert end >= self.history.flushed.get(partition, 0), f"{partition} lost flushed records"
            del sent[end:]
            self.history.flushed[partition] = min(self.history.flushed.get(partition, 0), end)
            self.history.starts[partition] = start

    async def read(self, partition):
        """Return the log start offset and the values from there on."""
        log = self.broker.broker._replica_manager.get_leader_partition(*partition).log
        topic = self.broker.broker.metadata_cache.topic(partition.topic)
        start = offset = log.log_start_offset
        result: list[Any] = []
        assert topic is not None
        while True:
            part = FetchPartition(partition.partition, fetch_offset=offset, partition_max_bytes=3000)
            requested = FetchTopic(topic_id=topic.topic_id, partitions=[part])
            response = await self.client.request(
                FETCH, 17, FetchRequest(max_bytes=1 << 20, topics=[requested])
            )
            entry = response.responses[0].partitions[0]
            assert entry.error_code == 0
            data = entry.records.read() if isinstance(entry.records, FileSlice) else bytes(entry.records)
            records = [record for record in codec.decode(data) if record.offset >= offset]
            if not records:
                assert offset == entry.high_watermark
                return start, result
            assert [record.offset for record in records] == list(range(offset, offset + len(records)))
            result += [record.value for record in records]
            offset += len(records)


@pytest.mark.parametrize("seed", range(40))
def test_flushed_records_survive_random_power_losses(seed):
    async def main():
        run_scenario = PowerLossRun(seed)
        try:
            for _ in range(LIVES):
                with contextlib.suppress(ConnectionEnded):
                    await run_scenario.live()
            run_scenario.broker = await run_scenario.cluster.start()
            run_scenario.client = await run_scenario.broker.connect()
            await run_scenario.check()
            await run_scenario.broker.stop()
        finally:
            await run_scenario.cluster.close()

    run_virtually(main)
