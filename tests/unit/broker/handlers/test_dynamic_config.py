"""Settings changed while the broker runs: they reach logs and limits, and are there after a restart."""

import asyncio

import pytest

from odradek.model.errors import ErrorCode
from odradek.store import znode_paths
from odradek.store.configs import change_config, watch_config_changes
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


async def alter(town, kind, name, setting, value, operation=SET):
    resource = AlterConfigsResource(kind, name, [AlterableConfig(setting, operation, value)])
    response = await town.ask(44, 1, IncrementalAlterConfigsRequest([resource], False))
    await asyncio.sleep(0.01)
    return response.responses[0].error_code


def config_of(town, topic="orders"):
    return town.broker._replicas.get_leader_partition(topic, 0).log.config


def test_a_topics_setting_reaches_its_log_and_no_other(play):
    async def scenario(town):
        await town.create("orders")
        await town.create("others")
        before = config_of(town, "others")
        assert await alter(town, TOPIC, "orders", "max.message.bytes", "500") == 0
        assert config_of(town).max_message_bytes == 500
        assert config_of(town, "others") == before
        assert (await town.produce("orders", bytes(1000))).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert await alter(town, TOPIC, "orders", "max.message.bytes", None, DELETE) == 0
        assert (await town.produce("orders", bytes(1000))).error_code == 0

    play(scenario)


def test_min_insync_replicas_follows_too(play):
    async def scenario(town):
        await town.create("orders")
        assert await alter(town, TOPIC, "orders", "min.insync.replicas", "2") == 0
        assert town.broker._replicas.get_leader_partition("orders", 0).min_isr == 2

    play(scenario)


@pytest.mark.parametrize("scope", ["all brokers", "this broker"])
def test_a_brokers_setting_reaches_topics_that_have_none_of_their_own(play, scope):
    async def scenario(town):
        await town.create("plain")
        await town.create("own", settings={"retention.ms": "7"})
        name = "" if scope == "all brokers" else str(town.broker.broker_id)
        assert await alter(town, BROKER, name, "log.retention.ms", "1234") == 0
        assert config_of(town, "plain").retention_ms == 1234
        assert config_of(town, "own").retention_ms == 7
        await town.create("later")
        assert config_of(town, "later").retention_ms == 1234
        assert await alter(town, BROKER, name, "log.retention.ms", None, DELETE) == 0
        assert config_of(town, "plain").retention_ms == 7 * 86_400_000

    play(scenario)


async def is_served(town):
    client = await town.memory.connect()
    try:
        await client.request(18, 4, ApiVersionsRequest("odradek-test", "1.0"))
    except ConnectionEnded:
        return False
    return True


@pytest.mark.parametrize("scope", ["all brokers", "this broker"])
def test_limits_on_connections_hold_at_once(play, scope):
    async def scenario(town):
        name = "" if scope == "all brokers" else str(town.broker.broker_id)
        assert await is_served(town)  # the second, after the town's own
        assert await alter(town, BROKER, name, "max.connections", "2") == 0
        assert not await is_served(town)
        assert await alter(town, BROKER, name, "max.connections", "3") == 0
        assert await is_served(town)
        assert not await is_served(town)
        assert await alter(town, BROKER, name, "max.connections", None, DELETE) == 0
        assert await is_served(town)
        assert await alter(town, BROKER, name, "max.connections.per.ip", "4") == 0
        assert not await is_served(town)
        assert await alter(town, BROKER, name, "max.connections.per.ip.overrides", f"{CLIENT_HOST}:5") == 0
        assert await is_served(town)
        assert not await is_served(town)
        assert await alter(town, BROKER, name, "max.connections.per.ip.overrides", "elsewhere:5") == 0
        assert await alter(town, BROKER, name, "max.connections.per.ip", None, DELETE) == 0
        assert await is_served(town)

    play(scenario)


def test_a_limit_on_the_connections_of_one_listener_holds_at_once(play):
    async def scenario(town):
        name = str(town.broker.broker_id)
        assert await alter(town, BROKER, name, "listener.name.plaintext.max.connections", "2") == 0
        assert await is_served(town)
        assert not await is_served(town)
        assert await alter(town, BROKER, name, "listener.name.plaintext.max.connections", None, DELETE) == 0
        assert await is_served(town)

    play(scenario)


def test_this_brokers_setting_stands_above_that_of_all(play):
    async def scenario(town):
        await town.create("orders")
        await alter(town, BROKER, str(town.broker.broker_id), "log.retention.ms", "1")
        await alter(town, BROKER, "", "log.retention.ms", "2")
        assert config_of(town).retention_ms == 1

    play(scenario)


def test_settings_are_there_after_a_restart():
    async def main():
        cluster = MemoryCluster()
        first = await cluster.start()
        store = first._session.store
        await change_config(store, "topics", "orders", {"retention.ms": "55"})
        await change_config(store, "brokers", "<default>", {"log.segment.bytes": "77777"})
        await first.stop()
        second = await cluster.start()
        client = await second.connect()
        request = DescribeConfigsRequest([DescribeConfigsResource(BROKER, "", None)])
        response = await client.request(32, 4, request)
        assert {one.name: one.value for one in response.results[0].configs}["log.segment.bytes"] == "77777"
        assert second.broker._topics.overrides_of("orders") == {"retention.ms": "55"}
        await second.stop()
        await cluster.close()

    run_virtually(main)


def test_what_the_store_has_and_nobody_can_read_is_passed_over(play):
    async def scenario(town):
        await town.create("orders")
        store = town.memory._session.store
        await change_config(store, "brokers", "<default>", {"log.segment.bytes": "many", "no.such": "1"})
        await change_config(store, "topics", "orders", {"retention.ms": "66"})
        await asyncio.sleep(0.01)
        assert config_of(town).retention_ms == 66
        assert config_of(town).segment_bytes == 1 << 30

    play(scenario)


def test_a_damaged_note_does_not_keep_the_next_from_being_read(play):
    async def scenario(town):
        await town.create("orders")
        store = town.memory._session.store
        path = f"{znode_paths.CONFIG_CHANGES}/{znode_paths.CONFIG_CHANGE_PREFIX}"
        await store.create(path, b"damaged", sequence=True)
        assert await alter(town, TOPIC, "orders", "retention.ms", "66") == 0
        assert config_of(town).retention_ms == 66

    play(scenario)


def test_notes_are_forgotten_in_time(play):
    async def scenario(town):
        await town.create("orders")
        store = town.memory._session.store
        for number in range(5):
            await alter(town, TOPIC, "orders", "retention.ms", str(number))
        assert len(await watch_config_changes(store)) == 5
        await asyncio.sleep(3600)
        assert await watch_config_changes(store) == []
        town.client = await town.memory.connect()  # the other was idle for too long
        assert await alter(town, TOPIC, "orders", "retention.ms", "99") == 0
        assert config_of(town).retention_ms == 99

    play(scenario)


def test_changes_made_at_the_same_time_are_all_kept(play):
    async def scenario(town):
        await town.create("orders")
        clients = [await town.memory.connect() for _ in range(4)]
        names = ("retention.ms", "segment.bytes", "max.message.bytes", "retention.bytes")
        tasks = []
        for client, name in zip(clients, names, strict=True):
            resource = AlterConfigsResource(TOPIC, "orders", [AlterableConfig(name, SET, "5000")])
            tasks.append(client.begin(44, 1, IncrementalAlterConfigsRequest([resource], False)))
        for response in await asyncio.gather(*tasks):
            assert response.responses[0].error_code == 0
        assert dict(town.broker._topics.overrides_of("orders")) == dict.fromkeys(names, "5000")

    play(scenario)


@pytest.mark.parametrize("scope", ["all brokers", "this broker"])
def test_changes_of_a_brokers_settings_made_at_the_same_time_are_all_kept(play, scope):
    async def scenario(town):
        name = "" if scope == "all brokers" else str(town.broker.broker_id)
        clients = [await town.memory.connect() for _ in range(3)]
        settings = ("log.retention.ms", "log.segment.bytes", "message.max.bytes")
        tasks = []
        for client, setting in zip(clients, settings, strict=True):
            resource = AlterConfigsResource(BROKER, name, [AlterableConfig(setting, SET, "5000")])
            tasks.append(client.begin(44, 1, IncrementalAlterConfigsRequest([resource], False)))
        for response in await asyncio.gather(*tasks):
            assert response.responses[0].error_code == 0
        config = town.broker.config
        overrides = config.broker_overrides if name else config.cluster_overrides
        assert dict(overrides) == dict.fromkeys(settings, "5000")

    play(scenario)


def test_settings_of_a_deleted_topic_do_not_come_back_with_its_name(play):
    async def scenario(town):
        await town.create("orders", settings={"retention.ms": "7"})
        await town.ask(20, 6, DeleteTopicsRequest([DeleteTopicState("orders")], [], 5000))
        await town.create("orders")
        assert config_of(town).retention_ms == 7 * 86_400_000
        assert town.broker._topics.overrides_of("orders") == {}

    play(scenario)
