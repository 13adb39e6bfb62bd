"""Compaction on a whole broker in memory: its settings, recreated topics, and stop."""

import asyncio
from typing import Any

from odradek.ports.files import FileSlice
from odradek.records import codec
from odradek.records.batch import BatchBuilder
from odradek.testing.broker import MemoryCluster, running_broker
from odradek.testing.clock import run_virtually
from odradek.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PRODUCE, FETCH, CREATE_TOPICS, DELETE_TOPICS, ALTER_CONFIGS = 0, 1, 19, 20, 44
TOPIC, BROKER = 2, 4
BACKOFF_S = 15


class LogHarness:
    """Broker and client, with one topic of one partition and small segments."""

    def __init__(self, cluster, memory_broker, client):
        self.cluster = cluster
        self.memory_broker = memory_broker
        self.client = client

    async def create(self, **settings):
        settings = {"segment_bytes": "500", "min_cleanable_dirty_ratio": "0", **settings}
        configs = [CreatableTopicConfig(name.replace("_", "."), value) for name, value in settings.items()]
        request = CreatableTopic("orders", 1, 1, [], configs)
        response = await self.client.request(CREATE_TOPICS, 7, CreateTopicsRequest([request]))
        assert response.topics[0].error_code == 0

    async def send(self, key, value):
        builder = BatchBuilder()
        builder.append(self.cluster.clock.wall_ms(), key, value)
        data = PartitionProduceData(0, bytearray(builder.build()))
        request = ProduceRequest(None, -1, 1000, [TopicProduceData("orders", [data])])
        response = await self.client.request(PRODUCE, 11, request)
        assert response.responses[0].partition_responses[0].error_code == 0

    async def fill(self, rounds=10):
        """Write values of three keys to several segments; the last one holds another key."""
        for number in range(rounds):
            for key in (b"a", b"b", b"c"):
                await self.send(key, b"%d" % number * 30)
        for number in range(8):
            await self.send(b"end-%d" % number, b"x" * 100)

    async def alter(self, kind, name, setting, value):
        resource = AlterConfigsResource(kind, name, [AlterableConfig(setting, 0, value)])
        request = IncrementalAlterConfigsRequest([resource], False)
        response = await self.client.request(ALTER_CONFIGS, 1, request)
        assert response.responses[0].error_code == 0
        await asyncio.sleep(0.01)

    async def delete(self):
        request = DeleteTopicsRequest([DeleteTopicState("orders")], timeout_ms=5000)
        response = await self.client.request(DELETE_TOPICS, 6, request)
        assert response.responses[0].error_code == 0

    async def keys(self):
        """Return the keys of all readable records, in order."""
        topic_id = self.memory_broker.broker.metadata_cache.topic("orders").topic_id
        offset = 0
        result: list[Any] = []
        while True:
            part = FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)
            requested = FetchTopic(topic_id=topic_id, partitions=[part])
            response = await self.client.request(
                FETCH, 17, FetchRequest(max_bytes=1 << 20, topics=[requested])
            )
            entry = response.responses[0].partitions[0]
            assert entry.error_code == 0
            data = entry.records.read() if isinstance(entry.records, FileSlice) else bytes(entry.records)
            records = codec.decode(data)
            if not records:
                return [key for key in result if not key.startswith(b"end")]
            result += [record.key for record in records]
            offset = records[-1].offset + 1


def run_scenario(scenario, settings=None):
    async def main():
        async with running_broker(settings) as (cluster, memory_broker):
            await scenario(LogHarness(cluster, memory_broker, await memory_broker.connect()))

    run_virtually(main)


def test_compacted_topic_is_cleaned_at_the_next_cleaner_run():
    async def scenario(harness):
        await harness.create(cleanup_policy="compact")
        await harness.fill()
        assert len(await harness.keys()) == 30
        await asyncio.sleep(BACKOFF_S + 1)
        assert await harness.keys() == [b"a", b"b", b"c"]

    run_scenario(scenario)


def test_changed_cleaner_settings_apply_from_the_next_run():
    async def scenario(harness):
        await harness.create(cleanup_policy="delete")
        await harness.fill()
        await asyncio.sleep(BACKOFF_S + 1)
        assert len(await harness.keys()) == 30
        await harness.alter(BROKER, "", "log.cleaner.backoff.ms", str(20 * BACKOFF_S * 1000))
        await asyncio.sleep(BACKOFF_S + 1)
        await harness.alter(TOPIC, "orders", "cleanup.policy", "compact")
        await asyncio.sleep(10 * BACKOFF_S)
        assert len(await harness.keys()) == 30
        await asyncio.sleep(10 * BACKOFF_S)
        assert await harness.keys() == [b"a", b"b", b"c"]

    run_scenario(scenario)


def test_topic_recreated_during_a_cleaner_run_is_not_touched_by_that_run():
    async def scenario(harness):
        await harness.create(cleanup_policy="compact")
        await harness.fill(40)
        await asyncio.sleep(BACKOFF_S + 0.5)
        await harness.delete()
        await harness.create(cleanup_policy="compact", min_compaction_lag_ms="100000000")
        await harness.fill(2)
        await asyncio.sleep(5 * BACKOFF_S)
        assert len(await harness.keys()) == 6
        names = harness.cluster.files.list_names(f"{harness.memory_broker.broker.log_dirs[0]}/orders-0")
        assert [name for name in names if name.endswith((".cleaned", ".swap"))] == []

    run_scenario(scenario, {"log.cleaner.io.max.bytes.per.second": "1000"})


def test_broker_stopped_during_a_cleaner_run_resumes_it_after_restart():
    async def main():
        cluster = MemoryCluster()
        settings = {"log.cleaner.io.max.bytes.per.second": "1000"}
        memory_broker = await cluster.start(settings)
        harness = LogHarness(cluster, memory_broker, await memory_broker.connect())
        await harness.create(cleanup_policy="compact")
        await harness.fill(20)
        await asyncio.sleep(BACKOFF_S + 1)
        cleaner = memory_broker.broker._cleaner
        assert cleaner is not None
        assert cleaner._in_progress
        began_s = asyncio.get_running_loop().time()
        await memory_broker.stop()
        assert asyncio.get_running_loop().time() - began_s < 1
        memory_broker = await cluster.start()
        harness = LogHarness(cluster, memory_broker, await memory_broker.connect())
        await asyncio.sleep(BACKOFF_S + 1)
        assert await harness.keys() == [b"a", b"b", b"c"]
        await cluster.close()

    run_virtually(main)
