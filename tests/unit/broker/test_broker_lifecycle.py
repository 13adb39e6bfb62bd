"""Whole broker in memory: start, restart, failed starts, failing stops."""

import asyncio
import errno

import pytest

from odradek.model.errors import ConfigError, StorageError
from odradek.testing.broker import Client, ConnectionEnded, MemoryBroker, MemoryCluster, running_broker
from odradek.testing.clock import run_virtually
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.metadata import MetadataRequest

API_VERSIONS, METADATA, FETCH, CREATE_TOPICS = 18, 3, 1, 19
CLEAN_STOP = ".kafka_cleanshutdown"


def run_scenario(scenario):
    async def main():
        cluster = MemoryCluster()
        try:
            await scenario(cluster)
        finally:
            await cluster.close()

    run_virtually(main)


async def create(broker, topic, partitions=1):
    client = await broker.connect()
    request = CreatableTopic(topic, partitions, 1)
    response = await client.request(CREATE_TOPICS, 7, CreateTopicsRequest([request]))
    assert response.topics[0].error_code == 0


def test_broker_id_cluster_id_and_topics_survive_a_restart():
    async def scenario(cluster):
        first = await cluster.start()
        await create(first, "orders", 3)
        reported = (
            first.broker.broker_id,
            first.broker.cluster_id,
            first.broker.metadata_cache.topic("orders").topic_id,
        )
        await first.stop()
        assert cluster.files.exists(f"/data/{CLEAN_STOP}")
        second = await cluster.start()
        broker = second.broker
        assert (
            broker.broker_id,
            broker.cluster_id,
            broker.metadata_cache.topic("orders").topic_id,
        ) == reported
        assert len(broker.metadata_cache.topic("orders").partitions) == 3
        assert not cluster.files.exists(f"/data/{CLEAN_STOP}")
        await second.stop()

    run_scenario(scenario)


def test_second_broker_on_the_same_log_dirs_fails_and_the_first_keeps_serving():
    async def scenario(cluster):
        first = await cluster.start()
        with pytest.raises(StorageError, match="in use"):
            await cluster.start()
        client = await first.connect()
        assert (await client.request(API_VERSIONS, 0, ApiVersionsRequest())).error_code == 0
        await first.stop()

    run_scenario(scenario)


def test_failed_start_keeps_the_clean_shutdown_marker():
    async def scenario(cluster):
        first = await cluster.start()
        await create(first, "orders")
        await first.stop()
        with pytest.raises(ConfigError):
            await cluster.start({"broker.id": "77"})
        assert cluster.files.exists(f"/data/{CLEAN_STOP}")
        second = await cluster.start()
        assert second.broker.metadata_cache.topic("orders") is not None
        await second.stop()

    run_scenario(scenario)


@pytest.mark.parametrize(
    "settings",
    [
        {"listeners": "SSL://broker:9092"},
        {"listeners": "PLAINTEXT://elsewhere:9092"},
        {"zookeeper.ssl.crl.enable": "true"},
    ],
    ids=["protocol", "address", "zookeeper"],
)
def test_unsupported_setting_fails_the_start_and_releases_all_resources(settings):
    async def scenario(cluster):
        with pytest.raises(ConfigError):
            await cluster.start(settings)
        broker = await cluster.start()
        await broker.stop()

    run_scenario(scenario)


def test_each_listener_advertises_its_own_endpoint():
    async def scenario(cluster):
        broker = await cluster.start(
            {
                "listeners": "ONE://broker:9092,TWO://broker:9093",
                "listener.security.protocol.map": "ONE:PLAINTEXT,TWO:PLAINTEXT",
                "inter.broker.listener.name": "ONE",
                "advertised.listeners": "ONE://first:1,TWO://second:2",
            }
        )
        for port, expected in ((9092, ("first", 1)), (9093, ("second", 2))):
            client = await Client.connect(cluster.network.host("client"), port)
            [node] = (await client.request(METADATA, 12, MetadataRequest(None))).brokers
            assert (node.host, node.port) == expected
        await broker.stop()

    run_scenario(scenario)


def test_stop_completes_waiting_requests():
    async def scenario(cluster):
        broker = await cluster.start()
        await create(broker, "orders")
        client = await broker.connect()
        topic_id = broker.broker.metadata_cache.topic("orders").topic_id
        requested = FetchTopic(
            topic_id=topic_id, partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=1000)]
        )
        waiting = client.send(FETCH, 17, FetchRequest(max_wait_ms=600_000, min_bytes=1, topics=[requested]))
        await asyncio.sleep(1)
        began_ms = cluster.clock.monotonic_ms()
        await broker.stop()
        assert (await waiting).responses[0].partitions[0].error_code == 0
        assert cluster.clock.monotonic_ms() - began_ms < 1000
        assert await client.lost is None

    run_scenario(scenario)


def test_log_dir_that_fails_to_close_does_not_prevent_closing_the_others():
    async def scenario(cluster):
        dirs = {"log.dirs": "/one,/two"}
        broker = await cluster.start(dirs)
        await create(broker, "orders", 2)
        cluster.files.fail_next_write(errno.EIO, name_end="/one/recovery-point-offset-checkpoint.tmp")
        with pytest.raises(StorageError):
            await broker.stop()
        assert not cluster.files.exists(f"/one/{CLEAN_STOP}")
        assert cluster.files.exists(f"/two/{CLEAN_STOP}")
        again = await cluster.start(dirs)
        await again.stop()

    run_scenario(scenario)


def test_killed_broker_drops_its_connections_and_can_be_restarted():
    async def scenario(cluster):
        broker = await cluster.start()
        client = await broker.connect()
        await broker.kill()
        assert not client.is_open
        with pytest.raises(ConnectionEnded):
            await client.request(API_VERSIONS, 0, ApiVersionsRequest())
        again = await cluster.start()
        client = await again.connect()
        assert (await client.request(API_VERSIONS, 0, ApiVersionsRequest())).error_code == 0
        await again.stop()

    run_scenario(scenario)


def test_idle_connections_are_closed():
    async def main():
        async with running_broker({"connections.max.idle.ms": "60000"}) as (_, broker):
            idle, busy = await broker.connect(), await broker.connect()
            for _ in range(20):
                await asyncio.sleep(10)
                await busy.request(API_VERSIONS, 0, ApiVersionsRequest())
            assert not idle.is_open
            assert busy.is_open

    run_virtually(main)


def test_connections_over_the_limit_are_refused():
    async def main():
        async with running_broker({"max.connections": "2"}) as (_, broker):
            clients = [await broker.connect() for _ in range(3)]
            await asyncio.sleep(0.1)
            assert [client.is_open for client in clients] == [True, True, False]
            clients[0].close()
            await asyncio.sleep(0.1)
            another = await broker.connect()
            assert (await another.request(API_VERSIONS, 0, ApiVersionsRequest())).error_code == 0

    run_virtually(main)


def test_invalid_frame_closes_only_its_own_connection():
    async def main():
        async with running_broker() as (_, broker):
            good, bad = await broker.connect(), await broker.connect()
            bad.send_bytes(b"\xff\xff\xff\xffgarbage")
            await bad.lost
            assert (await good.request(API_VERSIONS, 0, ApiVersionsRequest())).error_code == 0

    run_virtually(main)


def test_same_seed_gives_the_same_run():
    def identity():
        async def main():
            async with running_broker(seed=9) as (_, broker):
                return broker.broker.cluster_id

        return run_virtually(main)

    assert identity() == identity()


def test_memory_broker_exposes_the_real_broker():
    async def main():
        async with running_broker() as (cluster, broker):
            assert isinstance(broker, MemoryBroker)
            assert broker.broker.log_dirs == ["/data"]
            assert not cluster.network.connections

    run_virtually(main)
