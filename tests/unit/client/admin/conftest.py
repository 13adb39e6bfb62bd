"""An admin client and a whole broker in memory, on virtual time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from odradek.client.admin.client import Admin
from odradek.client.environment import ClientEnvironment
from odradek.testing.broker import CLIENT_HOST, Client, MemoryBroker, MemoryCluster, running_broker
from odradek.testing.clock import run_virtually
from odradek.testing.entropy import SeededEntropy


class Scene:
    """A broker, an admin client of it, and a connection for what an admin client does not do."""

    def __init__(self, cluster: MemoryCluster, memory: MemoryBroker, raw: Client, admin: Admin) -> None:
        self.cluster = cluster
        self.memory = memory
        self.raw = raw
        self.admin = admin

    def another_admin(self, **options: Any) -> Admin:
        return admin_of(self.cluster, **options)


def admin_of(cluster: MemoryCluster, **options: Any) -> Admin:
    environment = ClientEnvironment(
        cluster.clock, SeededEntropy(7), lambda *_: cluster.network.host(CLIENT_HOST)
    )
    return Admin(environment=environment, **{"bootstrap_servers": "broker:9092", **options})


ALONE = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "3",
}
"""What the brokers' own topics need where there is one broker."""

Scenario = Callable[[Scene], Awaitable[None]]


@pytest.fixture(scope="session")
def play() -> Callable[..., None]:
    """Run a scenario with a broker and an admin client of its own."""

    def run(scenario: Scenario, settings: Mapping[str, str] | None = None, **options: Any) -> None:
        async def main() -> None:
            async with (
                running_broker({**ALONE, **(settings or {})}) as (cluster, broker),
                admin_of(cluster, **options) as admin,
            ):
                await scenario(Scene(cluster, broker, await broker.connect(), admin))

        run_virtually(main)

    return run
