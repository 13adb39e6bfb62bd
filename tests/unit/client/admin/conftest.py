"""Admin client and in-memory broker on virtual time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from odradek.client.admin.client import Admin
from odradek.client.environment import ClientEnvironment
from odradek.testing.broker import CLIENT_HOST, Client, MemoryBroker, MemoryCluster, running_broker
from odradek.testing.clock import run_virtually
from odradek.testing.entropy import SeededEntropy


class AdminFixture:
    """A broker, an admin client, and a raw connection for other requests."""

    def __init__(self, cluster: MemoryCluster, memory: MemoryBroker, raw: Client, admin: Admin) -> None:
        self.cluster = cluster
        self.memory = memory
        self.raw = raw
        self.admin = admin

    def another_admin(self, **options: Any) -> Admin:
        return new_admin(self.cluster, **options)


def new_admin(cluster: MemoryCluster, **options: Any) -> Admin:
    environment = ClientEnvironment(
        cluster.clock, SeededEntropy(7), lambda *_: cluster.network.host(CLIENT_HOST)
    )
    return Admin(environment=environment, **{"bootstrap_servers": "broker:9092", **options})


SINGLE_BROKER = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "3",
}
"""Settings of internal topics for a single broker."""

Scenario = Callable[[AdminFixture], Awaitable[None]]


@pytest.fixture(scope="session")
def run_with_admin() -> Callable[..., None]:
    """Run a scenario with its own broker and admin client."""

    def run(scenario: Scenario, settings: Mapping[str, str] | None = None, **options: Any) -> None:
        async def main() -> None:
            async with (
                running_broker({**SINGLE_BROKER, **(settings or {})}) as (cluster, broker),
                new_admin(cluster, **options) as admin,
            ):
                await scenario(AdminFixture(cluster, broker, await broker.connect(), admin))

        run_virtually(main)

    return run
