"""Listeners changed while the broker runs: bound, released and advertised at once, and after a restart."""

import asyncio

import pytest

from odradek.model.errors import ErrorCode
from odradek.store.port import Unavailable
from odradek.testing.broker import Client, ConnectionEnded
from odradek.wire.messages import alter_configs as whole
from odradek.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.metadata import MetadataRequest

BROKER, SET, DELETE = 4, 0, 1
MAP = "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,SECURE:SASL_PLAINTEXT"
OPEN = {"odradek.allow.anonymous": "true", "listener.security.protocol.map": MAP}
BOTH = "PLAINTEXT://broker:9092,INTERNAL://broker:9093"


async def alter(town, *changes, client=None, validate_only=False):
    configs = [AlterableConfig(name, SET if value is not None else DELETE, value) for name, value in changes]
    resource = AlterConfigsResource(BROKER, str(town.broker.broker_id), configs)
    request = IncrementalAlterConfigsRequest([resource], validate_only)
    answer = (await (client or town.client).request(44, 1, request)).responses[0]
    await asyncio.sleep(0.1)
    return answer


async def dial(town, port):
    return await Client.connect(town.cluster.network.host("client"), port)


async def is_open(town, port):
    try:
        client = await dial(town, port)
    except ConnectionRefusedError:
        return False
    await client.request(3, 12, MetadataRequest([]))
    client.close()
    return True


async def open_ports(town):
    return [port for port in range(9090, 9100) if await is_open(town, port)]


async def advertised(client):
    [node] = (await client.request(3, 12, MetadataRequest([]))).brokers
    return node.host, node.port


def test_a_listener_is_added_and_removed(play):
    async def scenario(town):
        assert (await alter(town, ("listeners", BOTH))).error_code == 0
        assert await open_ports(town) == [9092, 9093]
        inside = await dial(town, 9093)
        assert await advertised(inside) == ("broker", 9093)
        assert await advertised(town.client) == ("broker", 9092)
        answer = await alter(town, ("listeners", "PLAINTEXT://broker:9092"), client=inside)
        assert answer.error_code == 0, "told before the connection ends"
        await asyncio.sleep(0.1)
        assert not inside.is_open
        assert await open_ports(town) == [9092]
        assert await advertised(town.client) == ("broker", 9092)

    play(scenario, OPEN)


def test_a_removed_listener_answers_what_is_under_way_and_waits_for_no_one_longer(play):
    async def scenario(town):
        await town.create("orders")
        await alter(town, ("listeners", BOTH))
        soon, late = await dial(town, 9093), await dial(town, 9093)
        polls = []
        for client, wait_ms in ((soon, 2_000), (late, 300_000)):
            request = town.fetch_request("orders", max_wait_ms=wait_ms)
            polls.append(client.begin(1, 17, request))
        await asyncio.sleep(0.1)
        await alter(town, ("listeners", None))
        assert soon.is_open
        assert (await polls[0]).error_code == 0
        await asyncio.sleep(10)
        assert not soon.is_open
        assert not late.is_open
        with pytest.raises(ConnectionEnded):
            await polls[1]

    play(scenario, OPEN)


def test_a_listener_moves_to_another_port_and_its_connections_stay(play):
    async def scenario(town):
        assert (await alter(town, ("listeners", "PLAINTEXT://broker:9094"))).error_code == 0
        assert await open_ports(town) == [9094]
        assert await advertised(town.client) == ("broker", 9094)
        assert str(town.broker.endpoints[0]) == "PLAINTEXT://broker:9094"

    play(scenario, OPEN)


def test_listeners_can_exchange_their_ports(play):
    async def scenario(town):
        await alter(town, ("listeners", BOTH))
        turned = "PLAINTEXT://broker:9093,INTERNAL://broker:9092"
        assert (await alter(town, ("listeners", turned))).error_code == 0
        assert await open_ports(town) == [9092, 9093]
        assert await advertised(await dial(town, 9092)) == ("broker", 9092)
        assert await advertised(town.client) == ("broker", 9093)

    play(scenario, OPEN)


def test_advertised_addresses_change_at_once(play):
    async def scenario(town):
        assert (await alter(town, ("advertised.listeners", "PLAINTEXT://elsewhere:1234"))).error_code == 0
        assert await advertised(town.client) == ("elsewhere", 1234)
        assert (await alter(town, ("advertised.listeners", None))).error_code == 0
        assert await advertised(town.client) == ("broker", 9092)

    play(scenario, OPEN)


def test_alter_configs_changes_listeners_too(play):
    async def scenario(town):
        entries = [whole.AlterableConfig("listeners", BOTH)]
        resource = whole.AlterConfigsResource(BROKER, str(town.broker.broker_id), entries)
        answer = await town.ask(33, 2, whole.AlterConfigsRequest([resource], False))
        assert answer.responses[0].error_code == 0
        assert await open_ports(town) == [9092, 9093]
        resource.configs = []
        await town.ask(33, 2, whole.AlterConfigsRequest([resource], False))
        await asyncio.sleep(0.1)
        assert await open_ports(town) == [9092]

    play(scenario, OPEN)


def test_after_a_restart_the_broker_binds_and_advertises_what_was_set(outlive):
    async def scenario(cluster, begin):
        town = await begin(OPEN)
        await alter(town, ("listeners", "PLAINTEXT://broker:9095,INTERNAL://broker:9096"))
        await town.memory.stop()
        town = await begin(OPEN)
        assert await open_ports(town) == [9095, 9096]
        assert await advertised(town.client) == ("broker", 9095)
        assert (await alter(town, ("listeners", None))).error_code == 0
        assert await open_ports(town) == [9092]
        await town.memory.stop()

    outlive(scenario)


def test_a_port_that_is_taken_is_refused_and_nothing_changes(play):
    async def scenario(town):
        taken = await town.cluster.network.host("broker").listen("broker", 9094, lambda _: None)
        answer = await alter(town, ("listeners", "PLAINTEXT://broker:9093,INTERNAL://broker:9094"))
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert "cannot listen on INTERNAL://broker:9094" in answer.error_message
        taken.close()
        assert await open_ports(town) == [9092]
        name = str(town.broker.broker_id)
        asked = DescribeConfigsRequest([DescribeConfigsResource(BROKER, name, ["listeners"])])
        [listeners] = (await town.ask(32, 4, asked)).results[0].configs
        assert listeners.value == "PLAINTEXT://broker:9092"
        assert town.client.is_open

    play(scenario, OPEN)


def test_a_port_is_given_back_when_the_change_cannot_be_stored(play, monkeypatch):
    async def scenario(town):
        async def fail(*_):
            raise Unavailable("/config", "disk full")

        monkeypatch.setattr(town.broker._topics, "set_broker_overrides", fail)
        for listeners in (BOTH, "PLAINTEXT://127.0.0.1:9092", "PLAINTEXT://broker:9097"):
            answer = await alter(town, ("listeners", listeners))
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert await open_ports(town) == [9092]

    play(scenario, OPEN)


def test_validating_binds_nothing(play):
    async def scenario(town):
        assert (await alter(town, ("listeners", BOTH), validate_only=True)).error_code == 0
        assert await open_ports(town) == [9092]

    play(scenario, OPEN)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([("listeners", "INTERNAL://broker:9093")], "inter.broker.listener.name must be a listener name"),
        ([("listeners", "PLAINTEXT://broker:9092,NEW://broker:9093")], "No security protocol defined"),
        ([("listeners", "PLAINTEXT://broker:9092,SECURE://broker:9093")], "SASL_PLAINTEXT is not available"),
        ([("listener.security.protocol.map", "PLAINTEXT:SSL")], "Security protocol cannot be updated"),
        ([("advertised.listeners", "INTERNAL://broker:9092")], "is not one of the listeners"),
        ([("listeners", "PLAINTEXT://broker:9092,INTERNAL://broker:9092")], "different port"),
        ([("listeners", "")], "at least one listener"),
        ([("listener.name.plaintext.socket.request.max.bytes", "7")], "existing listener PLAINTEXT"),
    ],
)
def test_what_cannot_be_is_refused(play, changes, words):
    async def scenario(town):
        answer = await alter(town, *changes)
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert words in answer.error_message
        assert await open_ports(town) == [9092]
        assert await advertised(town.client) == ("broker", 9092)

    play(scenario, OPEN)


def test_a_listener_open_to_others_needs_the_word_for_it(play):
    async def scenario(town):
        answer = await alter(town, ("listeners", "PLAINTEXT://broker:9092,INTERNAL://broker:9093"))
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert "odradek.allow.anonymous" in answer.error_message
        assert await open_ports(town) == [9092]

    play(scenario, {"listener.security.protocol.map": MAP})


def test_changes_made_at_the_same_time_end_in_one_of_them(play):
    async def scenario(town):
        clients = [await town.memory.connect() for _ in range(3)]
        wishes = [f"PLAINTEXT://broker:{port}" for port in (9095, 9096, 9097)]
        tasks = [
            alter(town, ("listeners", each), client=client)
            for each, client in zip(wishes, clients, strict=True)
        ]
        answers = await asyncio.gather(*tasks)
        assert [one.error_code for one in answers] == [0, 0, 0]
        [port] = await open_ports(town)
        assert f"PLAINTEXT://broker:{port}" == town.broker.config.broker_overrides["listeners"]
        assert await advertised(town.client) == ("broker", port)

    play(scenario, OPEN)
