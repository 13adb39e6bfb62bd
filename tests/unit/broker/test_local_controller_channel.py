"""LeaderAndIsr, UpdateMetadata and StopReplica of the embedded controller, on the local broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

from odradek.broker.local_controller_channel import LocalControllerChannel
from odradek.broker.metadata_observer import observe_metadata
from odradek.broker.timer_driver import TimerDriver
from odradek.cluster.metadata_cache import BrokerEndpoint, MetadataCache
from odradek.cluster.metadata_update import LEADER_DURING_DELETE
from odradek.controller.actions import (
    PartitionStateUpdate,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
    StopReplicaState,
)
from odradek.controller.live_broker import LiveBroker
from odradek.log.directory.log_directory import LogDirectory
from odradek.log.log_config import LogConfig
from odradek.log.log_manager import LogManager
from odradek.model.errors import ErrorCode, StorageError
from odradek.model.ids import TopicId, TopicPartition
from odradek.replication.follower import Follower
from odradek.replication.replica_manager import ReplicaManager
from odradek.store.layout.znodes import (
    BrokerRegistration,
    RegisteredEndpoint,
)
from odradek.testing.clock import VirtualClock, run_virtually
from odradek.testing.entropy import SeededEntropy
from odradek.testing.files import MemoryFileSystem
from odradek.testing.workers import InlineWorkers

ONE, OTHER = b"1" * 16, b"2" * 16
ORDERS = TopicPartition("orders", 0)
DELETED = StopReplicaState(-2, True)


class AdminRecorder:
    """Records what an admin manager would be told."""

    def __init__(self) -> None:
        self.changes: list[str] = []
        self.forgotten: list[str] = []

    def on_topic_changed(self, topic: str) -> None:
        self.changes.append(topic)

    def put_topic_overrides(self, topic: str, overrides: Mapping[str, str]) -> None:
        assert overrides == {}
        self.forgotten.append(topic)


class FetcherRecorder:
    """Records the partitions that fetchers would copy."""

    def __init__(self) -> None:
        self.fetched: set[TopicPartition] = set()

    def add_partitions(
        self, partitions: Mapping[TopicPartition, Follower], topic_ids: Mapping[TopicPartition, TopicId]
    ) -> None:
        self.fetched |= partitions.keys()

    def refresh(self, topic_partition: TopicPartition) -> None: ...

    def remove_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        self.fetched -= set(partitions)


class ChannelFixture:
    """Channel to broker 1, with a replica manager on files in memory."""

    def __init__(self) -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        files = MemoryFileSystem(clock.wall_ms)
        timer_driver = TimerDriver(clock)
        self.directories = [LogDirectory.open(files, path, SeededEntropy()) for path in ("/a", "/b")]
        self.cache = MetadataCache()
        self.replicas = ReplicaManager(
            1,
            LogManager(self.directories),
            self.cache,
            lambda topic: (LogConfig(), 1),
            clock,
            timer_driver.wheel,
            timer_driver.arm,
            lambda: 10_000,
            InlineWorkers(),
        )
        self.admin = AdminRecorder()
        self.deleted: list[TopicPartition] = []
        self.sizes: list[int] = []
        observe_metadata(self.replicas, self.admin, self.deleted.extend, self.sizes.append)  # type: ignore[arg-type]
        self.channel = LocalControllerChannel(1, self.replicas)

    async def open(self) -> None:
        for directory in self.directories:
            await directory.load(lambda topic: LogConfig(), 0)

    async def update(
        self, states: Mapping[TopicPartition, PartitionStateUpdate], brokers: Iterable[int] = (1,)
    ) -> None:
        live = {number: live_broker(number) for number in brokers}
        await self.channel.send(SendUpdateMetadata([1], 1, live, states))


def run_scenario(scenario: Callable[[ChannelFixture], Awaitable[None]]) -> None:
    async def main() -> None:
        fixture = ChannelFixture()
        await fixture.open()
        await scenario(fixture)

    run_virtually(main)


def partition_state(
    topic_id: bytes = ONE, leader: int = 1, leader_epoch: int = 0, replicas: tuple[int, ...] = (1,)
) -> PartitionStateUpdate:
    return PartitionStateUpdate(topic_id, leader, leader_epoch, replicas, replicas, 0)


def deleted(*numbers: int) -> dict[TopicPartition, PartitionStateUpdate]:
    """Return the states of partitions of a deleted topic."""
    state = partition_state(leader=LEADER_DURING_DELETE)
    return {TopicPartition("orders", number): state for number in numbers}


def live_broker(number: int) -> LiveBroker:
    endpoints = (
        RegisteredEndpoint("INNER", "PLAINTEXT", f"host{number}", 9092),
        RegisteredEndpoint("OUTER", "SASL_SSL", f"host{number}", 9093),
    )
    return LiveBroker(BrokerRegistration(endpoints, 0, f"rack{number}"), 5)


def test_leader_and_isr_makes_leaders() -> None:
    async def scenario(fixture: ChannelFixture) -> None:
        states = {ORDERS: partition_state(leader_epoch=4)}
        assert await fixture.channel.send(SendLeaderAndIsr(1, 3, states)) == (
            ErrorCode.NONE,
            {ORDERS: ErrorCode.NONE},
        )
        partition = fixture.replicas.get_leader_partition(*ORDERS)
        assert (partition.leader_epoch, partition.topic_id) == (4, ONE)
        assert fixture.replicas.state_changes.controller_epoch == 3

    run_scenario(scenario)


def test_offline_partitions_are_returned_and_new_ones_created() -> None:
    async def scenario(fixture: ChannelFixture) -> None:
        fixture.directories[1].fail(StorageError("the disk is gone"))
        new, old = TopicPartition("orders", 0), TopicPartition("broken", 0)
        states = {new: partition_state()._replace(is_new=True), old: partition_state(OTHER)}
        result = await fixture.channel.send(SendLeaderAndIsr(1, 1, states))
        assert result.partition_errors == {new: ErrorCode.NONE, old: ErrorCode.KAFKA_STORAGE_ERROR}
        assert [partition.topic_partition for partition in fixture.replicas] == [new]

    run_scenario(scenario)


def test_stop_replica_returns_the_removed_partitions() -> None:
    async def scenario(fixture: ChannelFixture) -> None:
        partitions = (TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("ghost", 0))
        states = {partition: partition_state(leader_epoch=7) for partition in partitions[:2]}
        await fixture.channel.send(SendLeaderAndIsr(1, 1, states))
        result = await fixture.channel.send(SendStopReplica(1, 1, dict.fromkeys(partitions, DELETED)))
        assert result == (ErrorCode.NONE, dict.fromkeys(partitions, ErrorCode.NONE))
        assert len(fixture.replicas) == 0
        assert not any(directory.log_count for directory in fixture.directories)

    run_scenario(scenario)


def test_update_replaces_brokers_and_adds_topics() -> None:
    async def scenario(fixture: ChannelFixture) -> None:
        states = {TopicPartition("orders", number): partition_state(replicas=(1, 2, 3)) for number in (1, 0)}
        states[ORDERS] = states[ORDERS]._replace(offline_replicas=(1, 3))
        await fixture.update(states, (1, 2))
        cache = fixture.cache
        topic = cache.topic("orders")
        assert topic is not None
        assert (list(topic.partitions), topic.topic_id) == ([0, 1], ONE)
        offline = [partition.offline_replicas for partition in topic.partitions.values()]
        assert offline == [(1, 3), ()]
        assert cache.controller_id == 1
        assert cache.brokers[2].endpoints["OUTER"] == BrokerEndpoint("host2", 9093, "SASL_SSL")
        assert cache.brokers[2].rack == "rack2"
        assert fixture.admin.changes == ["orders"]
        await fixture.update({}, (1, 3))
        assert set(cache.brokers) == {1, 3}
        assert fixture.admin.changes == ["orders"]

    run_scenario(scenario)


def test_deleted_topic_is_forgotten() -> None:
    async def scenario(fixture: ChannelFixture) -> None:
        partitions = [TopicPartition("orders", number) for number in (0, 1)]
        await fixture.update({partition: partition_state() for partition in partitions})
        await fixture.update(deleted(0, 1))
        assert fixture.cache.topic("orders") is None
        assert fixture.admin.forgotten == ["orders"]
        assert fixture.admin.changes == ["orders", "orders"]
        assert fixture.deleted == partitions

    run_scenario(scenario)


def test_partition_count_is_reported_when_topics_change() -> None:
    async def scenario(fixture: ChannelFixture) -> None:
        states = {TopicPartition("orders", number): partition_state() for number in (0, 1)}
        await fixture.channel.send(SendLeaderAndIsr(1, 1, states))
        await fixture.update(states)
        await fixture.update({})
        await fixture.channel.send(SendStopReplica(1, 1, dict.fromkeys(states, DELETED)))
        await fixture.update(deleted(0, 1))
        assert fixture.sizes == [2, 0]

    run_scenario(scenario)


def test_request_is_applied_to_its_end_when_the_controller_resigns() -> None:
    """Resignation cancels the sender, at any of its steps; every new follower has its fetcher then."""

    async def resign_after(fixture: ChannelFixture, steps: int) -> int:
        fetchers = FetcherRecorder()
        fixture.replicas.state_changes.fetcher_manager = fetchers
        partitions = [TopicPartition(f"orders-{steps}", number) for number in range(40)]
        await fixture.update({}, (1, 2))
        states = dict.fromkeys(partitions, partition_state(leader=2, leader_epoch=1, replicas=(1, 2)))
        sender = asyncio.create_task(fixture.channel.send(SendLeaderAndIsr(1, 1, states)))
        for _ in range(steps):
            await asyncio.sleep(0)
        sender.cancel()
        await asyncio.gather(sender, return_exceptions=True)
        await fixture.channel.close()
        followers = {each.topic_partition for each in fixture.replicas if each.follower_state is not None}
        assert fetchers.fetched == followers & set(partitions)
        return len(fetchers.fetched)

    async def scenario(fixture: ChannelFixture) -> None:
        counts = [await resign_after(fixture, steps) for steps in range(12)]
        assert set(counts) == {0, 40}  # nothing if it was not sent, else all

    run_scenario(scenario)
