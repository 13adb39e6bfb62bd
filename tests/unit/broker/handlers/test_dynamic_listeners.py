"""Dynamic listeners: bound, released and advertised at once, and after a restart."""

import asyncio

import pytest

from odradek.model.errors import ErrorCode
from odradek.store.port import Unavailable
from odradek.testing.broker import Client, ConnectionEnded
from odradek.wire.messages import alter_configs as full
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


async def alter(harness, *changes, client=None, validate_only=False):
    configs = [AlterableConfig(name, SET if value is not None else DELETE, value) for name, value in changes]
    resource = AlterConfigsResource(BROKER, str(harness.broker.broker_id), configs)
    request = IncrementalAlterConfigsRequest([resource], validate_only)
    response = (await (client or harness.client).request(44, 1, request)).responses[0]
    await asyncio.sleep(0.1)
    return response


async def dial(harness, port):
    return await Client.connect(harness.cluster.network.host("client"), port)


async def is_open(harness, port):
    try:
        client = await dial(harness, port)
    except ConnectionRefusedError:
        return False
    await client.request(3, 12, MetadataRequest([]))
    client.close()
    return True


async def open_ports(harness):
    return [port for port in range(9090, 9100) if await is_open(harness, port)]


async def advertised(client):
    [node] = (await client.request(3, 12, MetadataRequest([]))).brokers
    return node.host, node.port


def test_listener_is_added_and_removed(run_scenario):
    async def scenario(harness):
        assert (await alter(harness, ("listeners", BOTH))).error_code == 0
        assert await open_ports(harness) == [9092, 9093]
        inside = await dial(harness, 9093)
        assert await advertised(inside) == ("broker", 9093)
        assert await advertised(harness.client) == ("broker", 9092)
        response = await alter(harness, ("listeners", "PLAINTEXT://broker:9092"), client=inside)
        assert response.error_code == 0, "sent before the connection closes"
        await asyncio.sleep(0.1)
        assert not inside.is_open
        assert await open_ports(harness) == [9092]
        assert await advertised(harness.client) == ("broker", 9092)

    run_scenario(scenario, OPEN)


def test_removed_listener_completes_in_flight_requests_within_a_time_limit(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        await alter(harness, ("listeners", BOTH))
        soon, late = await dial(harness, 9093), await dial(harness, 9093)
        polls = []
        for client, wait_ms in ((soon, 2_000), (late, 300_000)):
            request = harness.fetch_request("orders", max_wait_ms=wait_ms)
            polls.append(client.send(1, 17, request))
        await asyncio.sleep(0.1)
        await alter(harness, ("listeners", None))
        assert soon.is_open
        assert (await polls[0]).error_code == 0
        await asyncio.sleep(10)
        assert not soon.is_open
        assert not late.is_open
        with pytest.raises(ConnectionEnded):
            await polls[1]

    run_scenario(scenario, OPEN)


def test_listener_keeps_its_connections_when_its_port_changes(run_scenario):
    async def scenario(harness):
        assert (await alter(harness, ("listeners", "PLAINTEXT://broker:9094"))).error_code == 0
        assert await open_ports(harness) == [9094]
        assert await advertised(harness.client) == ("broker", 9094)
        assert str(harness.broker.endpoints[0]) == "PLAINTEXT://broker:9094"

    run_scenario(scenario, OPEN)


def test_listeners_can_swap_ports(run_scenario):
    async def scenario(harness):
        await alter(harness, ("listeners", BOTH))
        turned = "PLAINTEXT://broker:9093,INTERNAL://broker:9092"
        assert (await alter(harness, ("listeners", turned))).error_code == 0
        assert await open_ports(harness) == [9092, 9093]
        assert await advertised(await dial(harness, 9092)) == ("broker", 9092)
        assert await advertised(harness.client) == ("broker", 9093)

    run_scenario(scenario, OPEN)


def test_advertised_addresses_change_at_once(run_scenario):
    async def scenario(harness):
        assert (await alter(harness, ("advertised.listeners", "PLAINTEXT://elsewhere:1234"))).error_code == 0
        assert await advertised(harness.client) == ("elsewhere", 1234)
        assert (await alter(harness, ("advertised.listeners", None))).error_code == 0
        assert await advertised(harness.client) == ("broker", 9092)

    run_scenario(scenario, OPEN)


def test_alter_configs_changes_listeners(run_scenario):
    async def scenario(harness):
        entries = [full.AlterableConfig("listeners", BOTH)]
        resource = full.AlterConfigsResource(BROKER, str(harness.broker.broker_id), entries)
        response = await harness.request(33, 2, full.AlterConfigsRequest([resource], False))
        assert response.responses[0].error_code == 0
        assert await open_ports(harness) == [9092, 9093]
        resource.configs = []
        await harness.request(33, 2, full.AlterConfigsRequest([resource], False))
        await asyncio.sleep(0.1)
        assert await open_ports(harness) == [9092]

    run_scenario(scenario, OPEN)


def test_changed_listeners_survive_a_restart(run_with_restarts):
    async def scenario(cluster, start_broker):
        harness = await start_broker(OPEN)
        await alter(harness, ("listeners", "PLAINTEXT://broker:9095,INTERNAL://broker:9096"))
        await harness.memory_broker.stop()
        harness = await start_broker(OPEN)
        assert await open_ports(harness) == [9095, 9096]
        assert await advertised(harness.client) == ("broker", 9095)
        assert (await alter(harness, ("listeners", None))).error_code == 0
        assert await open_ports(harness) == [9092]
        await harness.memory_broker.stop()

    run_with_restarts(scenario)


def test_port_in_use_is_rejected_and_nothing_changes(run_scenario):
    async def scenario(harness):
        taken = await harness.cluster.network.host("broker").listen("broker", 9094, lambda _: None)
        response = await alter(harness, ("listeners", "PLAINTEXT://broker:9093,INTERNAL://broker:9094"))
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert "cannot listen on INTERNAL://broker:9094" in response.error_message
        taken.close()
        assert await open_ports(harness) == [9092]
        name = str(harness.broker.broker_id)
        requested = DescribeConfigsRequest([DescribeConfigsResource(BROKER, name, ["listeners"])])
        [listeners] = (await harness.request(32, 4, requested)).results[0].configs
        assert listeners.value == "PLAINTEXT://broker:9092"
        assert harness.client.is_open

    run_scenario(scenario, OPEN)


@pytest.mark.sources
def test_port_is_released_when_the_change_is_not_stored(run_scenario, monkeypatch):
    async def scenario(harness):
        async def fail(*_):
            raise Unavailable("/config", "disk full")

        monkeypatch.setattr(harness.broker._admin_manager, "set_broker_overrides", fail)
        for listeners in (BOTH, "PLAINTEXT://127.0.0.1:9092", "PLAINTEXT://broker:9097"):
            response = await alter(harness, ("listeners", listeners))
            assert response.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert await open_ports(harness) == [9092]

    run_scenario(scenario, OPEN)


def test_validate_only_binds_no_port(run_scenario):
    async def scenario(harness):
        assert (await alter(harness, ("listeners", BOTH), validate_only=True)).error_code == 0
        assert await open_ports(harness) == [9092]

    run_scenario(scenario, OPEN)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([("listeners", "INTERNAL://broker:9093")], "inter.broker.listener.name must be a listener name"),
        (
            [("listeners", "PLAINTEXT://broker:9092,NEW://broker:9093")],
            "has no protocol",
        ),
        (
            [("listeners", "PLAINTEXT://broker:9092,SECURE://broker:9093")],
            "GSSAPI (Kerberos) is not supported",
        ),
        (
            [("listener.security.protocol.map", "PLAINTEXT:SSL")],
            "cannot be changed",
        ),
        ([("advertised.listeners", "INTERNAL://broker:9092")], "is not one of the listeners"),
        ([("listeners", "PLAINTEXT://broker:9092,INTERNAL://broker:9092")], "different port"),
        ([("listeners", "")], "at least one listener"),
        ([("listener.name.plaintext.socket.request.max.bytes", "7")], "existing listener PLAINTEXT"),
    ],
)
def test_invalid_listeners_are_rejected(run_scenario, changes, words):
    async def scenario(harness):
        response = await alter(harness, *changes)
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert words in response.error_message
        assert await open_ports(harness) == [9092]
        assert await advertised(harness.client) == ("broker", 9092)

    run_scenario(scenario, OPEN)


def test_non_loopback_listener_needs_the_insecure_setting(run_scenario):
    async def scenario(harness):
        response = await alter(harness, ("listeners", "PLAINTEXT://broker:9092,INTERNAL://broker:9093"))
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert "odradek.allow.anonymous" in response.error_message
        assert await open_ports(harness) == [9092]

    run_scenario(scenario, {"listener.security.protocol.map": MAP})


def test_concurrent_listener_changes_apply_one_of_them(run_scenario):
    async def scenario(harness):
        clients = [await harness.memory_broker.connect() for _ in range(3)]
        new_topics = [f"PLAINTEXT://broker:{port}" for port in (9095, 9096, 9097)]
        tasks = [
            alter(harness, ("listeners", item), client=client)
            for item, client in zip(new_topics, clients, strict=True)
        ]
        responses = await asyncio.gather(*tasks)
        assert [response.error_code for response in responses] == [0, 0, 0]
        [port] = await open_ports(harness)
        assert f"PLAINTEXT://broker:{port}" == harness.broker.config.broker_overrides["listeners"]
        assert await advertised(harness.client) == ("broker", port)

    run_scenario(scenario, OPEN)
