"""Clients on virtual time against a whole broker in memory: settings, their world, and a stage to play on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from odradek.client.cluster import Cluster
from odradek.client.connect import World
from odradek.config.client.connection import BOOTSTRAP_SERVERS, CONNECTION_SETTINGS
from odradek.config.table import Setting, Settings
from odradek.testing.broker import CLIENT_HOST, MemoryBroker, MemoryCluster
from odradek.testing.entropy import SeededEntropy
from odradek.testing.network import MemoryNetwork

ADDRESS = "broker:9092"


def connection_settings(changes: Mapping[Setting[Any], Any] | None = None) -> Settings:
    plain = Settings({setting: setting.default for setting in CONNECTION_SETTINGS})
    return plain.replaced({BOOTSTRAP_SERVERS: (ADDRESS,), **(changes or {})})


def world_of(network: MemoryNetwork, clock: Any, host: str = CLIENT_HOST) -> World:
    return World(clock, SeededEntropy(), lambda *_: network.host(host))


class Stage:
    """A broker that serves, and clusters as clients see it; nothing of them may be left at the end."""

    def __init__(self, memory: MemoryCluster, broker: MemoryBroker) -> None:
        self.memory = memory
        self.broker = broker
        self.made: list[Cluster] = []

    @property
    def network(self) -> MemoryNetwork:
        return self.memory.network

    async def cluster(self, changes: Mapping[Setting[Any], Any] | None = None) -> Cluster:
        world = world_of(self.network, self.memory.clock)
        made = Cluster(world, connection_settings(changes), client_id="tester")
        await made.start()
        self.made.append(made)
        return made

    def connections(self) -> list[str]:
        return sorted(one.peer for one in self.network.connections if one.host == CLIENT_HOST)

    async def close(self) -> None:
        for one in self.made:
            await one.close()
        assert self.connections() == []
        names = {"metadata"}
        assert [t for t in asyncio.all_tasks() if t.get_name() in names or "dial" in t.get_name()] == []
