"""Brokers that a client asks for a coordinator."""

from __future__ import annotations

import asyncio

from tests.support.simulation.client_fixture import client_environment, connection_settings

from odradek.client.network.network_client import CoordinatorType, NetworkClient
from odradek.config.client.connection import BOOTSTRAP_SERVERS
from odradek.testing.broker import CLIENT_HOST

from .client_cluster import CLIENT_PORT, ClientCluster, play

FIND_COORDINATOR, CLIENT_ID, GROUP = 10, "reader", "readers"
LOOKUP_MS_MAX = 60_000


async def started_client(fixture: ClientCluster) -> NetworkClient:
    environment = client_environment(fixture.cluster.network, fixture.cluster.clock)
    settings = connection_settings({BOOTSTRAP_SERVERS: (f"broker0:{CLIENT_PORT}",)})
    client = NetworkClient(environment, settings, client_id=CLIENT_ID)
    await client.start()
    await client.await_update(0, LOOKUP_MS_MAX)
    return client


async def look_up_again(client: NetworkClient) -> None:
    client.mark_coordinator_unknown(CoordinatorType.GROUP, GROUP)
    await client.coordinator(CoordinatorType.GROUP, GROUP, LOOKUP_MS_MAX)


def lookups(fixture: ClientCluster) -> list[int]:
    return [fixture.requests.of(broker_id, FIND_COORDINATOR, CLIENT_ID) for broker_id in range(3)]


def test_former_coordinator_is_not_asked_for_its_successor() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        await fixture.create_internal_topics((0, 1, 2))
        client = await started_client(fixture)
        await client.coordinator(CoordinatorType.GROUP, GROUP, LOOKUP_MS_MAX)
        before = lookups(fixture)
        for _ in range(10):
            await look_up_again(client)
        assert lookups(fixture)[0] == before[0]
        assert sum(lookups(fixture)) == sum(before) + 10
        await client.close()

    play(scenario)


def test_former_coordinator_is_asked_when_no_other_broker_can_be_reached() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        await fixture.create_internal_topics((0, 1, 2))
        client = await started_client(fixture)
        await client.coordinator(CoordinatorType.GROUP, GROUP, LOOKUP_MS_MAX)
        for host in ("broker1", "broker2"):
            fixture.cluster.network.partition(CLIENT_HOST, host)
        async with asyncio.timeout(LOOKUP_MS_MAX / 1000):
            await look_up_again(client)
        async with asyncio.timeout(1):
            await look_up_again(client)
        await client.close()

    play(scenario)
