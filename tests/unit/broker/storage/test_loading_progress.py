"""Progress reports while logs are loaded."""

import asyncio
from typing import Any

from odradek.records.batch import BatchBuilder
from odradek.testing.broker import MemoryBroker, MemoryCluster
from odradek.testing.clock import run_virtually
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PRODUCE, CREATE_TOPICS = 0, 19
LOGS = 5
SETTINGS = {"log.dirs": "/data", "listeners": "PLAINTEXT://broker:9092"}


async def fill(cluster):
    memory_broker = await cluster.start()
    client = await memory_broker.connect()
    await client.request(CREATE_TOPICS, 7, CreateTopicsRequest([CreatableTopic("orders", LOGS, 1)]))
    for number in range(LOGS):
        builder = BatchBuilder()
        builder.append(1000, None, bytes(1000))
        data = [TopicProduceData("orders", [PartitionProduceData(number, bytearray(builder.build()))])]
        await client.request(PRODUCE, 11, ProduceRequest(None, -1, 1000, data))
    return memory_broker


async def start_again(cluster, load_ms):
    """Start a broker with slow files; return the progress reports."""

    async def later(work):
        await asyncio.sleep(load_ms / 1000)
        return work()

    cluster.files.offload = later
    reported: list[Any] = []
    memory_broker = MemoryBroker(cluster, SETTINGS)
    memory_broker.broker._on_load_progress = reported.append
    await memory_broker.start()
    del cluster.files.offload
    await memory_broker.stop()
    return reported


def test_long_start_reports_loading_progress():
    async def main():
        cluster = MemoryCluster()
        memory_broker = await fill(cluster)
        for log in memory_broker.broker._log_manager.find_directory("/data"):
            await log.flush()
        await memory_broker.kill()
        reported = await start_again(cluster, 10_000)
        await cluster.close()
        assert len(reported) > 2
        assert reported[0] == (0, 0, 0, 0)
        assert reported[-1].logs_total == LOGS
        assert [progress.logs_loaded for progress in reported] == sorted(
            progress.logs_loaded for progress in reported
        )

    run_virtually(main)


def test_short_start_reports_no_loading_progress():
    async def main():
        cluster = MemoryCluster()
        await (await fill(cluster)).stop()
        assert await start_again(cluster, 10) == []
        await cluster.close()

    run_virtually(main)
