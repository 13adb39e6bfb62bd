"""Compaction on a whole broker in memory: by its settings, beside everything else, until it stops."""

import asyncio

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


class Shop:
    """A broker, a client, and one topic with one partition and small segments."""

    def __init__(self, cluster, memory, client):
        self.cluster = cluster
        self.memory = memory
        self.client = client

    async def create(self, **settings):
        settings = {"segment_bytes": "500", "min_cleanable_dirty_ratio": "0", **settings}
        configs = [CreatableTopicConfig(name.replace("_", "."), value) for name, value in settings.items()]
        wish = CreatableTopic("orders", 1, 1, [], configs)
        response = await self.client.request(CREATE_TOPICS, 7, CreateTopicsRequest([wish]))
        assert response.topics[0].error_code == 0

    async def send(self, key, value):
        builder = BatchBuilder()
        builder.append(self.cluster.clock.wall_ms(), key, value)
        data = PartitionProduceData(0, bytearray(builder.build()))
        request = ProduceRequest(None, -1, 1000, [TopicProduceData("orders", [data])])
        response = await self.client.request(PRODUCE, 11, request)
        assert response.responses[0].partition_responses[0].error_code == 0

    async def fill(self, rounds=10):
        """Values of three keys, in several segments; the last one holds another key."""
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
        """The keys of everything that can be read, in order."""
        topic_id = self.memory.broker.image.topic("orders").topic_id
        offset, found = 0, []
        while True:
            part = FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)
            asked = FetchTopic(topic_id=topic_id, partitions=[part])
            response = await self.client.request(FETCH, 17, FetchRequest(max_bytes=1 << 20, topics=[asked]))
            entry = response.responses[0].partitions[0]
            assert entry.error_code == 0
            data = entry.records.read() if isinstance(entry.records, FileSlice) else bytes(entry.records)
            records = codec.decode(data)
            if not records:
                return [key for key in found if not key.startswith(b"end")]
            found += [one.key for one in records]
            offset = records[-1].offset + 1


def play(scenario, settings=None):
    async def main():
        async with running_broker(settings) as (cluster, memory):
            await scenario(Shop(cluster, memory, await memory.connect()))

    run_virtually(main)


def test_a_compacted_topic_is_compacted_at_the_next_look():
    async def scenario(shop):
        await shop.create(cleanup_policy="compact")
        await shop.fill()
        assert len(await shop.keys()) == 30
        await asyncio.sleep(BACKOFF_S + 1)
        assert await shop.keys() == [b"a", b"b", b"c"]

    play(scenario)


def test_settings_hold_from_the_next_look_on():
    async def scenario(shop):
        await shop.create(cleanup_policy="delete")
        await shop.fill()
        await asyncio.sleep(BACKOFF_S + 1)
        assert len(await shop.keys()) == 30
        await shop.alter(BROKER, "", "log.cleaner.backoff.ms", str(20 * BACKOFF_S * 1000))
        await asyncio.sleep(BACKOFF_S + 1)
        await shop.alter(TOPIC, "orders", "cleanup.policy", "compact")
        await asyncio.sleep(10 * BACKOFF_S)
        assert len(await shop.keys()) == 30
        await asyncio.sleep(10 * BACKOFF_S)
        assert await shop.keys() == [b"a", b"b", b"c"]

    play(scenario)


def test_a_topic_that_is_deleted_and_made_again_during_a_round_is_not_touched_by_it():
    async def scenario(shop):
        await shop.create(cleanup_policy="compact")
        await shop.fill(40)
        await asyncio.sleep(BACKOFF_S + 0.5)
        await shop.delete()
        await shop.create(cleanup_policy="compact", min_compaction_lag_ms="100000000")
        await shop.fill(2)
        await asyncio.sleep(5 * BACKOFF_S)
        assert len(await shop.keys()) == 6
        names = shop.cluster.files.list_names(f"{shop.memory.broker.log_dirs[0]}/orders-0")
        assert [name for name in names if name.endswith((".cleaned", ".swap"))] == []

    play(scenario, {"log.cleaner.io.max.bytes.per.second": "1000"})


def test_a_broker_stops_in_the_midst_of_a_round_and_goes_on_with_it_later():
    async def main():
        cluster = MemoryCluster()
        settings = {"log.cleaner.io.max.bytes.per.second": "1000"}
        memory = await cluster.start(settings)
        shop = Shop(cluster, memory, await memory.connect())
        await shop.create(cleanup_policy="compact")
        await shop.fill(20)
        await asyncio.sleep(BACKOFF_S + 1)
        assert memory.broker._cleaner._under_way
        began_s = asyncio.get_running_loop().time()
        await memory.stop()
        assert asyncio.get_running_loop().time() - began_s < 1
        memory = await cluster.start()
        shop = Shop(cluster, memory, await memory.connect())
        await asyncio.sleep(BACKOFF_S + 1)
        assert await shop.keys() == [b"a", b"b", b"c"]
        await cluster.close()

    run_virtually(main)
