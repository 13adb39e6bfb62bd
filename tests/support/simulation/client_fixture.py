"""Clients on virtual time with a broker in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from odradek.client.environment import ClientEnvironment
from odradek.client.network.network_client import NetworkClient
from odradek.config.client.connection import BOOTSTRAP_SERVERS, CONNECTION_SETTINGS
from odradek.config.definition import Setting, Settings
from odradek.testing.broker import CLIENT_HOST, MemoryBroker, MemoryCluster
from odradek.testing.entropy import SeededEntropy
from odradek.testing.network import MemoryNetwork

ADDRESS = "broker:9092"


def connection_settings(changes: Mapping[Setting[Any], Any] | None = None) -> Settings:
    plain = Settings({setting: setting.default for setting in CONNECTION_SETTINGS})
    return plain.replace({BOOTSTRAP_SERVERS: (ADDRESS,), **(changes or {})})


def client_environment(network: MemoryNetwork, clock: Any, host: str = CLIENT_HOST) -> ClientEnvironment:
    return ClientEnvironment(clock, SeededEntropy(), lambda *_: network.host(host))


class ClientFixture:
    """A broker and network clients; no connection or task may be left at the end."""

    def __init__(self, memory: MemoryCluster, broker: MemoryBroker) -> None:
        self.memory = memory
        self.broker = broker
        self.clients: list[NetworkClient] = []

    @property
    def network(self) -> MemoryNetwork:
        return self.memory.network

    async def network_client(self, changes: Mapping[Setting[Any], Any] | None = None) -> NetworkClient:
        environment = client_environment(self.network, self.memory.clock)
        client = NetworkClient(environment, connection_settings(changes), client_id="tester")
        await client.start()
        self.clients.append(client)
        return client

    def connections(self) -> list[str]:
        return sorted(
            connection.peer for connection in self.network.connections if connection.host == CLIENT_HOST
        )

    async def close(self) -> None:
        for client in self.clients:
            await client.close()
        assert self.connections() == []
        names = {"metadata"}
        assert [t for t in asyncio.all_tasks() if t.get_name() in names or "connect" in t.get_name()] == []
