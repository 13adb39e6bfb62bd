"""A replica manager on files in memory, with followers simulated by the tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from odradek.cluster.metadata_cache import (
    BrokerMetadata,
    MetadataCache,
    MetadataUpdate,
    PartitionMetadata,
    TopicMetadata,
)
from odradek.log.directory.log_directory import LogDirectory
from odradek.log.log_config import LogConfig
from odradek.log.log_manager import LogManager
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.records.batch import BatchBuilder
from odradek.replication.leader import IsrChangeResult
from odradek.replication.partition import Partition
from odradek.replication.replica_manager import ReplicaManager
from odradek.testing.entropy import SeededEntropy
from odradek.testing.files import MemoryFileSystem
from odradek.testing.workers import InlineWorkers
from odradek.timers.timing_wheel import TimingWheel
from odradek.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from odradek.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)

BROKER_ID = 1
TOPIC_ID = b"t" * 16
REPLICA_LAG_TIME_MAX_MS = 10_000


class ManualClock:
    """A clock set by the test."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def monotonic_ns(self) -> int:
        return self.now_ms * 1_000_000

    async def sleep_ms(self, duration_ms: int) -> None:
        raise AssertionError("unexpected sleep")


def make_leader_and_isr(
    leader: int = BROKER_ID,
    leader_epoch: int = 0,
    isr: tuple[int, ...] = (BROKER_ID,),
    replicas: tuple[int, ...] | None = None,
    partition_epoch: int = 0,
    is_new: bool = False,
) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        leader=leader,
        leader_epoch=leader_epoch,
        isr=list(isr),
        partition_epoch=partition_epoch,
        replicas=list(isr if replicas is None else replicas),
        is_new=is_new,
    )


def make_request(
    states: Mapping[tuple[str, int], LeaderAndIsrPartitionState],
    topic_id: bytes = TOPIC_ID,
    controller_epoch: int = 1,
) -> LeaderAndIsrRequest:
    topics: dict[str, LeaderAndIsrTopicState] = {}
    for (topic, number), state in states.items():
        state.partition_index = number
        topics.setdefault(topic, LeaderAndIsrTopicState(topic, topic_id, [])).partition_states.append(state)
    return LeaderAndIsrRequest(
        controller_id=2, controller_epoch=controller_epoch, topic_states=list(topics.values())
    )


class ReplicationFixture:
    """The replica manager of a broker, on one log directory in memory."""

    def __init__(self, broker_id: int = BROKER_ID) -> None:
        self.broker_id = broker_id
        self.clock = ManualClock()
        self.files = MemoryFileSystem(self.clock.wall_ms)
        self.metadata_cache = MetadataCache()
        self.metadata_cache.apply(
            MetadataUpdate({number: BrokerMetadata(number, {}) for number in (1, 2, 3)})
        )
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
        """Replace the replica manager by one on these directories."""
        self.replicas = ReplicaManager(
            self.broker_id,
            LogManager(directories),
            self.metadata_cache,
            lambda topic: self.config.get(topic, (LogConfig(), 1)),
            self.clock,
            self.wheel,
            self.armed.append,
            lambda: REPLICA_LAG_TIME_MAX_MS,
            InlineWorkers(),
        )

    async def send_leader_and_isr(
        self,
        states: Mapping[tuple[str, int], LeaderAndIsrPartitionState],
        topic_id: bytes = TOPIC_ID,
        controller_epoch: int = 1,
    ) -> dict[TopicPartition, ErrorCode]:
        """Send a LeaderAndIsr request; return the errors of the partitions."""
        request = make_request(states, topic_id, controller_epoch)
        result = await self.replicas.become_leader_or_follower(request)
        assert result.error == ErrorCode.NONE
        return result.partition_errors

    async def make_leader_or_follower(
        self,
        leader_and_isr: LeaderAndIsrPartitionState,
        topic: str = "orders",
        number: int = 0,
        topic_id: bytes = TOPIC_ID,
    ) -> Partition:
        await self.send_leader_and_isr({(topic, number): leader_and_isr}, topic_id)
        partition = self.replicas.get_partition(topic, number)
        assert partition is not None
        return partition

    async def stop_replicas(
        self, *partitions: tuple[str, int], leader_epoch: int = -2, delete: bool = True
    ) -> dict[TopicPartition, ErrorCode]:
        """Send a StopReplica request; return the errors of the partitions."""
        request = StopReplicaRequest(
            controller_epoch=1,
            topic_states=[
                StopReplicaTopicState(topic, [StopReplicaPartitionState(number, leader_epoch, delete)])
                for topic, number in partitions
            ],
        )
        result = await self.replicas.stop_replicas(request)
        assert result.error == ErrorCode.NONE
        return result.partition_errors

    def change_isr(self, partition: Partition, *isr: int) -> None:
        """Change the ISR as the controller's response to a proposal does."""
        leader = partition.leader_state
        assert leader is not None
        change = leader.propose_isr(isr)
        result = IsrChangeResult(ErrorCode.NONE, isr, partition.leader_epoch, partition.partition_epoch + 1)
        self.replicas.isr_changes.on_result(partition, change, result)

    def add_topic(self, topic: str, *partitions: PartitionMetadata) -> None:
        """Add a topic to the metadata cache."""
        metadata = TopicMetadata(
            topic, TOPIC_ID, {partition.partition: partition for partition in partitions}
        )
        self.metadata_cache.apply(MetadataUpdate(topics={topic: metadata}))

    def fetch_as_follower(self, partition: Partition, broker_id: int, offset: int) -> None:
        """Record a follower's fetch at an offset."""
        partition.record_follower_fetch(broker_id, offset, 0)
        partition.advance_high_watermark()

    def advance_time(self, by_ms: int) -> None:
        self.clock.now_ms += by_ms
        self.wheel.advance(self.clock.now_ms)


def batch(*values: bytes, timestamp: int = 1000, **how: Any) -> bytearray:
    builder = BatchBuilder(**how)
    for index, value in enumerate(values):
        builder.append(timestamp + index, None, value)
    return bytearray(builder.build())


@pytest.fixture(scope="session")
def run_scenario() -> Callable[[Callable[[ReplicationFixture], Any]], None]:
    """Run a scenario on its own replica manager."""

    def run(scenario: Callable[[ReplicationFixture], Any]) -> None:
        async def main() -> None:
            fixture = ReplicationFixture()
            await fixture.open()
            await scenario(fixture)

        asyncio.run(main())

    return run


@pytest.fixture(scope="session")
def leader_and_isr() -> Callable[..., LeaderAndIsrPartitionState]:
    return make_leader_and_isr


@pytest.fixture(scope="session")
def make_batch() -> Callable[..., bytearray]:
    return batch
