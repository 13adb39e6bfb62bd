"""A fetcher manager of one follower broker, its leaders, and virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.unit.replication.fetchers.scripted_leader import (
    TOPIC_IDS,
    ScriptedLeader,
    ScriptedRequests,
    settings,
)

from odradek.log.log import Log
from odradek.model.ids import TopicPartition
from odradek.replication.fetchers.fetch_state import PartitionFetchState
from odradek.replication.fetchers.fetcher_manager import ReplicaFetcherManager
from odradek.replication.follower import Follower
from odradek.testing.clock import VirtualClock, run_virtually
from odradek.testing.entropy import SeededEntropy

LEADER_IDS = (1, 2)


class FetcherFixture:
    """Created on the running loop."""

    def __init__(self, **changes: Any) -> None:
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.settings = settings(**changes)
        self.leaders = {number: ScriptedLeader(self.clock) for number in LEADER_IDS}
        self.leader = self.leaders[1]
        self.requests = ScriptedRequests(self.leaders)
        self.appended: list[TopicPartition] = []
        self.failures: list[tuple[TopicPartition, Exception]] = []
        self.manager = ReplicaFetcherManager(
            self.requests,
            lambda: self.settings,
            self.clock,
            SeededEntropy(0),
            self.appended.append,
            lambda partition, error: self.failures.append((partition, error)),
        )

    def follow(self, log: Log, leader_epoch: int = 0, leader_id: int = 1, **ids: bytes) -> Follower:
        """Become follower of a leader in an epoch."""
        follower = Follower(log.topic_partition, log, leader_id, leader_epoch)
        topic_id = ids.get("topic_id", TOPIC_IDS[log.topic_partition])
        self.manager.add_partitions({log.topic_partition: follower}, {log.topic_partition: topic_id})
        return follower

    def state_of(self, partition: TopicPartition) -> PartitionFetchState | None:
        for fetcher in self.manager._fetchers.values():
            if partition in fetcher.partitions:
                return fetcher.partitions[partition].state
        return None

    async def wait_for(self, condition: Callable[[], bool], timeout_ms: int = 60_000) -> None:
        """Let virtual time pass until a condition holds."""
        end_ms = self.clock.monotonic_ms() + timeout_ms
        while not condition():
            assert self.clock.monotonic_ms() < end_ms, "the condition does not hold in time"
            await self.clock.sleep_ms(10)

    async def wait_ms(self, duration_ms: int) -> None:
        await self.clock.sleep_ms(duration_ms)


Body = Callable[[FetcherFixture], Awaitable[None]]


@pytest.fixture(scope="session")
def run() -> Callable[..., None]:
    """Run a coroutine function with a fixture on virtual time."""

    def run_body(body: Body, **changes: Any) -> None:
        async def main() -> None:
            fixture = FetcherFixture(**changes)
            try:
                await body(fixture)
            finally:
                await fixture.manager.close()

        run_virtually(main)

    return run_body
