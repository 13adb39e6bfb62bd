"""Dynamic configs: applied to logs and limits, and kept after a restart."""

import asyncio

import pytest

from odradek.model.errors import ErrorCode
from odradek.store.configs import change_config, watch_config_changes
from odradek.store.layout import znode_paths
from odradek.testing.broker import CLIENT_HOST, ConnectionEnded, MemoryCluster
from odradek.testing.clock import run_virtually
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1


async def alter(harness, kind, name, setting, value, operation=SET):
    resource = AlterConfigsResource(kind, name, [AlterableConfig(setting, operation, value)])
    response = await harness.request(44, 1, IncrementalAlterConfigsRequest([resource], False))
    await asyncio.sleep(0.01)
    return response.responses[0].error_code


def config_of(harness, topic="orders"):
    return harness.broker._replica_manager.get_leader_partition(topic, 0).log.config


def test_topic_config_reaches_only_its_own_log(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        await harness.create("others")
        before = config_of(harness, "others")
        assert await alter(harness, TOPIC, "orders", "max.message.bytes", "500") == 0
        assert config_of(harness).max_message_bytes == 500
        assert config_of(harness, "others") == before
        assert (await harness.produce("orders", bytes(1000))).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert await alter(harness, TOPIC, "orders", "max.message.bytes", None, DELETE) == 0
        assert (await harness.produce("orders", bytes(1000))).error_code == 0

    run_scenario(scenario)


def test_min_insync_replicas_is_updated(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        assert await alter(harness, TOPIC, "orders", "min.insync.replicas", "2") == 0
        assert harness.broker._replica_manager.get_leader_partition("orders", 0).min_isr == 2

    run_scenario(scenario)


@pytest.mark.parametrize("scope", ["all brokers", "this broker"])
def test_broker_config_reaches_topics_without_an_override(run_scenario, scope):
    async def scenario(harness):
        await harness.create("plain")
        await harness.create("own", settings={"retention.ms": "7"})
        name = "" if scope == "all brokers" else str(harness.broker.broker_id)
        assert await alter(harness, BROKER, name, "log.retention.ms", "1234") == 0
        assert config_of(harness, "plain").retention_ms == 1234
        assert config_of(harness, "own").retention_ms == 7
        await harness.create("later")
        assert config_of(harness, "later").retention_ms == 1234
        assert await alter(harness, BROKER, name, "log.retention.ms", None, DELETE) == 0
        assert config_of(harness, "plain").retention_ms == 7 * 86_400_000

    run_scenario(scenario)


async def is_served(harness):
    client = await harness.memory_broker.connect()
    try:
        await client.request(18, 4, ApiVersionsRequest("odradek-test", "1.0"))
    except ConnectionEnded:
        return False
    return True


@pytest.mark.parametrize("scope", ["all brokers", "this broker"])
def test_connection_limits_apply_at_once(run_scenario, scope):
    async def scenario(harness):
        name = "" if scope == "all brokers" else str(harness.broker.broker_id)
        assert await is_served(harness)  # the second, after the harness's own
        assert await alter(harness, BROKER, name, "max.connections", "2") == 0
        assert not await is_served(harness)
        assert await alter(harness, BROKER, name, "max.connections", "3") == 0
        assert await is_served(harness)
        assert not await is_served(harness)
        assert await alter(harness, BROKER, name, "max.connections", None, DELETE) == 0
        assert await is_served(harness)
        assert await alter(harness, BROKER, name, "max.connections.per.ip", "4") == 0
        assert not await is_served(harness)
        assert await alter(harness, BROKER, name, "max.connections.per.ip.overrides", f"{CLIENT_HOST}:5") == 0
        assert await is_served(harness)
        assert not await is_served(harness)
        assert await alter(harness, BROKER, name, "max.connections.per.ip.overrides", "elsewhere:5") == 0
        assert await alter(harness, BROKER, name, "max.connections.per.ip", None, DELETE) == 0
        assert await is_served(harness)

    run_scenario(scenario)


def test_listener_connection_limit_applies_at_once(run_scenario):
    async def scenario(harness):
        name = str(harness.broker.broker_id)
        assert await alter(harness, BROKER, name, "listener.name.plaintext.max.connections", "2") == 0
        assert await is_served(harness)
        assert not await is_served(harness)
        assert (
            await alter(harness, BROKER, name, "listener.name.plaintext.max.connections", None, DELETE) == 0
        )
        assert await is_served(harness)

    run_scenario(scenario)


def test_per_broker_config_overrides_the_cluster_default(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        await alter(harness, BROKER, str(harness.broker.broker_id), "log.retention.ms", "1")
        await alter(harness, BROKER, "", "log.retention.ms", "2")
        assert config_of(harness).retention_ms == 1

    run_scenario(scenario)


def test_dynamic_configs_survive_a_restart():
    async def main():
        cluster = MemoryCluster()
        first = await cluster.start()
        store = first._session.store
        assert store is not None
        await change_config(store, "topics", "orders", {"retention.ms": "55"})
        await change_config(store, "brokers", "<default>", {"log.segment.bytes": "77777"})
        await first.stop()
        second = await cluster.start()
        client = await second.connect()
        request = DescribeConfigsRequest([DescribeConfigsResource(BROKER, "", None)])
        response = await client.request(32, 4, request)
        assert {config.name: config.value for config in response.results[0].configs}[
            "log.segment.bytes"
        ] == "77777"
        assert second.broker._admin_manager.topic_overrides("orders") == {"retention.ms": "55"}
        await second.stop()
        await cluster.close()

    run_virtually(main)


def test_invalid_stored_config_is_ignored(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        store = harness.memory_broker._session.store
        await change_config(store, "brokers", "<default>", {"log.segment.bytes": "many", "no.such": "1"})
        await change_config(store, "topics", "orders", {"retention.ms": "66"})
        await asyncio.sleep(0.01)
        assert config_of(harness).retention_ms == 66
        assert config_of(harness).segment_bytes == 1 << 30

    run_scenario(scenario)


def test_corrupt_change_notification_does_not_block_the_next(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        store = harness.memory_broker._session.store
        path = f"{znode_paths.CONFIG_CHANGES}/{znode_paths.CONFIG_CHANGE_PREFIX}"
        await store.create(path, b"damaged", sequence=True)
        assert await alter(harness, TOPIC, "orders", "retention.ms", "66") == 0
        assert config_of(harness).retention_ms == 66

    run_scenario(scenario)


def test_change_notifications_expire(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        store = harness.memory_broker._session.store
        for number in range(5):
            await alter(harness, TOPIC, "orders", "retention.ms", str(number))
        assert len(await watch_config_changes(store)) == 5
        await asyncio.sleep(3600)
        assert await watch_config_changes(store) == []
        harness.client = await harness.memory_broker.connect()  # the other one was closed as idle
        assert await alter(harness, TOPIC, "orders", "retention.ms", "99") == 0
        assert config_of(harness).retention_ms == 99

    run_scenario(scenario)


def test_concurrent_topic_config_changes_are_all_kept(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        clients = [await harness.memory_broker.connect() for _ in range(4)]
        names = ("retention.ms", "segment.bytes", "max.message.bytes", "retention.bytes")
        tasks = []
        for client, name in zip(clients, names, strict=True):
            resource = AlterConfigsResource(TOPIC, "orders", [AlterableConfig(name, SET, "5000")])
            tasks.append(client.send(44, 1, IncrementalAlterConfigsRequest([resource], False)))
        for response in await asyncio.gather(*tasks):
            assert response.responses[0].error_code == 0
        assert dict(harness.broker._admin_manager.topic_overrides("orders")) == dict.fromkeys(names, "5000")

    run_scenario(scenario)


@pytest.mark.parametrize("scope", ["all brokers", "this broker"])
def test_concurrent_broker_config_changes_are_all_kept(run_scenario, scope):
    async def scenario(harness):
        name = "" if scope == "all brokers" else str(harness.broker.broker_id)
        clients = [await harness.memory_broker.connect() for _ in range(3)]
        settings = ("log.retention.ms", "log.segment.bytes", "message.max.bytes")
        tasks = []
        for client, setting in zip(clients, settings, strict=True):
            resource = AlterConfigsResource(BROKER, name, [AlterableConfig(setting, SET, "5000")])
            tasks.append(client.send(44, 1, IncrementalAlterConfigsRequest([resource], False)))
        for response in await asyncio.gather(*tasks):
            assert response.responses[0].error_code == 0
        config = harness.broker.config
        overrides = config.broker_overrides if name else config.cluster_overrides
        assert dict(overrides) == dict.fromkeys(settings, "5000")

    run_scenario(scenario)


def test_recreated_topic_does_not_get_old_overrides(run_scenario):
    async def scenario(harness):
        await harness.create("orders", settings={"retention.ms": "7"})
        await harness.request(20, 6, DeleteTopicsRequest([DeleteTopicState("orders")], [], 5000))
        await harness.create("orders")
        assert config_of(harness).retention_ms == 7 * 86_400_000
        assert harness.broker._admin_manager.topic_overrides("orders") == {}

    run_scenario(scenario)
