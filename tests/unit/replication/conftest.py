"""Partitions on files in memory, with followers that are played by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from odradek.cluster.metadata_cache import (
    BrokerMetadata,
    MetadataCache,
    MetadataUpdate,
    PartitionMetadata,
    TopicMetadata,
)
from odradek.log.log_config import LogConfig
from odradek.log.log_directory import LogDirectory
from odradek.log.log_manager import LogManager
from odradek.model.ids import TopicPartition
from odradek.records.batch import BatchBuilder
from odradek.replication.partition import LeaderAndIsr, Partition
from odradek.replication.replica_manager import ReplicaManager
from odradek.testing.entropy import SeededEntropy
from odradek.testing.files import MemoryFileSystem
from odradek.testing.workers import InlineWorkers
from odradek.timers.timing_wheel import TimingWheel

BROKER_ID = 1
TOPIC_ID = b"t" * 16
LAG_MAX_MS = 10_000


class HandClock:
    """Shows the time it was set to."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    async def sleep_ms(self, duration_ms: int) -> None:
        raise AssertionError("nothing here sleeps")


def order(
    leader: int = BROKER_ID,
    leader_epoch: int = 0,
    isr: tuple[int, ...] = (BROKER_ID,),
    replicas: tuple[int, ...] | None = None,
    partition_epoch: int = 0,
) -> LeaderAndIsr:
    return LeaderAndIsr(leader, leader_epoch, isr, isr if replicas is None else replicas, partition_epoch)


class Shed:
    """The replicas of broker 1, on one directory in memory."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.files = MemoryFileSystem(self.clock.wall_ms)
        self.image = MetadataCache()
        self.image.apply(MetadataUpdate({number: BrokerMetadata(number, {}) for number in (1, 2, 3)}))
        self.wheel = TimingWheel(self.clock.monotonic_ms())
        self.armed: list[int] = []
        self.config: dict[str, tuple[LogConfig, int]] = {}
        self.directory: LogDirectory
        self.replicas: ReplicaManager

    async def open(self) -> None:
        self.directory = LogDirectory.open(self.files, "/data", SeededEntropy())
        await self.directory.load(lambda topic: LogConfig(), 0)
        self.use(self.directory)

    def use(self, *directories: LogDirectory) -> None:
        """Begin anew on these directories."""
        self.replicas = ReplicaManager(
            BROKER_ID,
            LogManager(directories),
            self.image,
            lambda topic: self.config.get(topic, (LogConfig(), 1)),
            self.clock,
            self.wheel,
            self.armed.append,
            lambda: LAG_MAX_MS,
            InlineWorkers(),
        )

    async def become_leader_or_follower(
        self, told: LeaderAndIsr, topic: str = "orders", number: int = 0, topic_id: bytes = TOPIC_ID
    ) -> Partition:
        await self.replicas.become_leader_or_follower({TopicPartition(topic, number): (topic_id, told)})
        partition = self.replicas.find(topic, number)
        assert partition is not None
        return partition

    def show(self, topic: str, *partitions: PartitionMetadata) -> None:
        """Let the cluster image know a topic."""
        image = TopicMetadata(topic, TOPIC_ID, {one.partition: one for one in partitions})
        self.image.apply(MetadataUpdate(topics={topic: image}))

    def follow(self, partition: Partition, broker_id: int, offset: int) -> None:
        """A follower has fetched up to an offset; the leader takes note."""
        progress = partition._progress
        assert progress is not None
        follower = progress.follower(broker_id)
        assert follower is not None
        follower.fetched(offset, 0, partition.log.log_end_offset, self.clock.now_ms)
        partition._advance_high_watermark(self.clock.now_ms)

    def pass_time(self, by_ms: int) -> None:
        self.clock.now_ms += by_ms
        self.wheel.advance(self.clock.now_ms)


def batch(*values: bytes, timestamp: int = 1000, **how: Any) -> bytearray:
    builder = BatchBuilder(**how)
    for index, value in enumerate(values):
        builder.append(timestamp + index, None, value)
    return bytearray(builder.build())


@pytest.fixture(scope="session")
def play() -> Callable[[Callable[[Shed], Any]], None]:
    """Run a scenario on replicas of its own."""

    def run(scenario: Callable[[Shed], Any]) -> None:
        async def main() -> None:
            shed = Shed()
            await shed.open()
            await scenario(shed)

        asyncio.run(main())

    return run


@pytest.fixture(scope="session")
def told() -> Callable[..., LeaderAndIsr]:
    return order


@pytest.fixture(scope="session")
def make_batch() -> Callable[..., bytearray]:
    return batch
