"""A start that takes long says how far it is; one that does not says nothing."""

import asyncio

from odradek.records.batch import BatchBuilder
from odradek.testing.broker import MemoryBroker, MemoryCluster
from odradek.testing.clock import run_virtually
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PRODUCE, CREATE_TOPICS = 0, 19
LOGS = 5
SETTINGS = {"log.dirs": "/data", "listeners": "PLAINTEXT://broker:9092"}


async def fill(cluster):
    memory = await cluster.start()
    client = await memory.connect()
    await client.request(CREATE_TOPICS, 7, CreateTopicsRequest([CreatableTopic("orders", LOGS, 1)]))
    for number in range(LOGS):
        builder = BatchBuilder()
        builder.append(1000, None, bytes(1000))
        data = [TopicProduceData("orders", [PartitionProduceData(number, bytearray(builder.build()))])]
        await client.request(PRODUCE, 11, ProduceRequest(None, -1, 1000, data))
    return memory


async def start_again(cluster, load_ms):
    """Start a broker whose files take so long for a piece of work; give what is told meanwhile."""

    async def later(work):
        await asyncio.sleep(load_ms / 1000)
        return work()

    cluster.files.offload = later
    told = []
    memory = MemoryBroker(cluster, SETTINGS)
    memory.broker._on_loading = told.append
    await memory.start()
    del cluster.files.offload
    await memory.stop()
    return told


def test_a_long_start_says_how_far_it_is():
    async def main():
        cluster = MemoryCluster()
        memory = await fill(cluster)
        for log in memory.broker._directories.find_directory("/data"):
            await log.flush()
        await memory.kill()
        told = await start_again(cluster, 10_000)
        await cluster.close()
        assert len(told) > 2
        assert told[0] == (0, 0, 0, 0)
        assert told[-1].logs_total == LOGS
        assert [one.logs_loaded for one in told] == sorted(one.logs_loaded for one in told)

    run_virtually(main)


def test_a_quick_start_says_nothing():
    async def main():
        cluster = MemoryCluster()
        await (await fill(cluster)).stop()
        assert await start_again(cluster, 10) == []
        await cluster.close()

    run_virtually(main)
