"""Brokers of one cluster on virtual time, led by a scripted controller: coordinators on different brokers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import count
from typing import Any

from odradek.cluster.metadata_version import LATEST
from odradek.model.ids import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from odradek.replication.fetchers.fetcher_manager import ReplicaFetcherManager
from odradek.replication.fetchers.fetcher_settings import FetcherSettings
from odradek.replication.partition import Partition
from odradek.store.layout.znodes import ReplicaAssignment, TopicAssignment
from odradek.store.topics import create_topic, write_assignment
from odradek.testing.broker import Client, MemoryBroker, MemoryCluster
from odradek.testing.clock import run_virtually
from odradek.testing.scripted_broker import ScriptedBroker
from odradek.wire.messages.allocate_producer_ids import AllocateProducerIdsResponse
from odradek.wire.messages.controlled_shutdown import ControlledShutdownResponse
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
from odradek.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

PRODUCE, TXN_OFFSET_COMMIT = 0, 28
CONTROLLED_SHUTDOWN, ALLOCATE_PRODUCER_IDS = 7, 67
CONTROLLER_ID = 9
PORT = 9092
SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "controlled.shutdown.enable": "false",
}


class Node:
    """One broker of the cluster, with a client connected to it."""

    def __init__(self, cluster: MemoryCluster, memory_broker: MemoryBroker, client: Client) -> None:
        self.cluster = cluster
        self.memory_broker = memory_broker
        self.broker = memory_broker.broker
        self.client = client
        self.replica_manager = memory_broker.broker._replica_manager
        self.groups = memory_broker.broker._group_coordinator
        self.transactions = memory_broker.broker._transaction_coordinator
        self.fetchers: ReplicaFetcherManager | None = None
        if self.replica_manager.state_changes.fetcher_manager is None:
            self._attach_fetchers()

    @property
    def id(self) -> int:
        return self.broker.broker_id

    def _attach_fetchers(self) -> None:
        broker = self.broker
        settings = FetcherSettings(self.id, lambda: -1, LATEST, 1, 100, 1, 1 << 20, 1 << 20, 100, 30_000)
        requests = broker._requests
        assert requests is not None
        self.fetchers = ReplicaFetcherManager(
            requests,
            lambda: settings,
            self.cluster.clock,
            self.cluster.entropy,
            self.replica_manager.on_replica_appended,
            lambda partition, error: None,
        )
        self.replica_manager.state_changes.fetcher_manager = self.fetchers

    async def request(self, api_key: int, version: int, message: Any) -> Any:
        return await self.client.request(api_key, version, message)

    def partition(self, topic: str, number: int = 0) -> Partition:
        partition = self.replica_manager.get_partition(topic, number)
        assert partition is not None, f"broker {self.id} has no replica of {topic}-{number}"
        return partition

    def log_end_offset(self, topic: str, number: int = 0) -> int:
        return self.partition(topic, number).log_end_offset

    def coordinator_epochs(self, topic: str, number: int = 0) -> set[int]:
        """Return the coordinator epochs of the last markers of all producers in a partition."""
        return {producer.coordinator_epoch for producer in self.partition(topic, number).producers.entries()}

    async def stop(self) -> None:
        if self.fetchers is not None:
            await self.fetchers.close()
        await self.memory_broker.stop()


class CoordinatorCluster:
    """Several brokers. ``place`` announces leaders as a controller does, under growing leader epochs."""

    def __init__(self, cluster: MemoryCluster, controller: ScriptedBroker) -> None:
        self.cluster = cluster
        self.clock = cluster.clock
        self.controller = controller
        self.nodes: dict[int, Node] = {}
        self.leaders: dict[TopicPartition, tuple[int, int]] = {}
        """Leader and leader epoch."""
        self.replicas: dict[TopicPartition, tuple[int, ...]] = {}
        self.isrs: dict[TopicPartition, tuple[int, ...]] = {}
        """Of partitions whose ISR is not all replicas."""
        self.scripted: dict[int, ScriptedBroker] = {}
        self.store = cluster.ensemble.connect()
        self._sizes: dict[str, int] = {}

    def __getitem__(self, broker_id: int) -> Node:
        return self.nodes[broker_id]

    @staticmethod
    def topic_id(topic: str) -> bytes:
        return topic.encode()[:16].ljust(16, b"\1")

    async def start(self, broker_id: int, settings: Mapping[str, str] | None = None) -> Node:
        memory_broker = await self.cluster.start({**SETTINGS, **(settings or {})}, broker_id=broker_id)
        self.nodes[broker_id] = Node(self.cluster, memory_broker, await memory_broker.connect())
        return self.nodes[broker_id]

    async def add_scripted(self, broker_id: int) -> ScriptedBroker:
        """Add a scripted broker to the cluster; it is announced by the next ``place`` or ``announce``."""
        scripted = self.scripted[broker_id] = ScriptedBroker(self.cluster.network.host(f"broker-{broker_id}"))
        await scripted.listen("", PORT)
        return scripted

    # The controller.

    async def create(self, topic: str, partitions: int = 1, replicas: tuple[int, ...] = (1,)) -> None:
        """Create a topic in the store; no broker knows it before ``place``."""
        assigned = {number: ReplicaAssignment(replicas) for number in range(partitions)}
        assignment = TopicAssignment(self.topic_id(topic), assigned)
        if topic in self._sizes:
            await write_assignment(self.store, topic, assignment)
        else:
            await create_topic(self.store, topic, assignment, {})
        self._sizes[topic] = partitions
        for number in range(partitions):
            self.replicas[TopicPartition(topic, number)] = replicas

    async def announce(self, partitions: Iterable[TopicPartition] = (), *, to: Iterable[int] = ()) -> None:
        """Send UpdateMetadata to these brokers, or to all."""
        topics: dict[str, UpdateMetadataTopicState] = {}
        for partition in partitions:
            leader, epoch = self.leaders[partition]
            state = topics.setdefault(
                partition.topic,
                UpdateMetadataTopicState(partition.topic, self.topic_id(partition.topic), []),
            )
            replicas = list(self.replicas[partition])
            state.partition_states.append(
                UpdateMetadataPartitionState(
                    partition_index=partition.partition,
                    controller_epoch=1,
                    leader=leader,
                    leader_epoch=epoch,
                    isr=replicas,
                    zk_version=epoch,
                    replicas=replicas,
                )
            )
        hosts = {broker_id: f"broker-{broker_id}" for broker_id in (*self.nodes, *self.scripted)}
        hosts[CONTROLLER_ID] = "controller"
        brokers = [
            UpdateMetadataBroker(number, endpoints=[UpdateMetadataEndpoint(PORT, host, "PLAINTEXT", 0)])
            for number, host in hosts.items()
        ]
        for broker_id in to or list(self.nodes):
            await self[broker_id].replica_manager.update_metadata(
                UpdateMetadataRequest(
                    controller_id=CONTROLLER_ID,
                    controller_epoch=1,
                    topic_states=list(topics.values()),
                    live_brokers=brokers,
                )
            )

    async def place(
        self,
        leader: int,
        topic: str,
        *numbers: int,
        announces: bool = True,
        to: Iterable[int] = (),
        isr: tuple[int, ...] = (),
    ) -> None:
        """Make a broker leader of partitions, in the next leader epoch; tell the replicas, or only ``to``.

        ``isr`` is all replicas by default.
        """
        partitions = [TopicPartition(topic, number) for number in numbers or range(self._sizes[topic])]
        for partition in partitions:
            self.isrs[partition] = isr or self.replicas[partition]
            epoch = self.leaders.get(partition, (0, -1))[1] + 1
            self.leaders[partition] = leader, epoch
        if announces:
            await self.announce(partitions)
        for broker_id in to or list(self.nodes):
            await self.tell(broker_id, topic, *numbers)

    async def tell(self, broker_id: int, topic: str, *numbers: int) -> None:
        """Send the current leaders of partitions to a broker, in LeaderAndIsr."""
        states = []
        for number in numbers or range(self._sizes[topic]):
            partition = TopicPartition(topic, number)
            leader, epoch = self.leaders[partition]
            replicas = self.replicas[partition]
            if broker_id in replicas:
                states.append(
                    LeaderAndIsrPartitionState(
                        partition_index=partition.partition,
                        controller_epoch=1,
                        leader=leader,
                        leader_epoch=epoch,
                        isr=list(self.isrs.get(partition, replicas)),
                        partition_epoch=epoch,
                        replicas=list(replicas),
                        is_new=True,
                    )
                )
        if states:
            result = await self[broker_id].replica_manager.become_leader_or_follower(
                LeaderAndIsrRequest(
                    controller_id=CONTROLLER_ID,
                    controller_epoch=1,
                    topic_states=[LeaderAndIsrTopicState(topic, self.topic_id(topic), states)],
                )
            )
            assert result.error == 0
            assert not any(result.partition_errors.values())

    async def tell_again(self, broker_id: int, topic: str) -> None:
        """Send the current leaders again, to a broker that may have missed them."""
        for number in range(self._sizes[topic]):
            partition = self[broker_id].replica_manager.get_partition(topic, number)
            epoch = self.leaders[TopicPartition(topic, number)][1]
            if partition is None or partition.leader_epoch < epoch:
                await self.tell(broker_id, topic, number)

    async def stop_replica(self, broker_id: int, topic: str, number: int, leader_epoch: int) -> None:
        """Remove a replica from a broker, as after a reassignment."""
        state = StopReplicaTopicState(topic, [StopReplicaPartitionState(number, leader_epoch, True)])
        result = await self[broker_id].replica_manager.stop_replicas(
            StopReplicaRequest(controller_id=CONTROLLER_ID, controller_epoch=1, topic_states=[state])
        )
        assert not any(result.partition_errors.values())

    # Progress.

    async def until(self, condition: Callable[[], bool], limit_ms: int = 60_000) -> None:
        """Wait until a condition holds; fails after ``limit_ms`` of virtual time."""
        deadline_ms = self.clock.monotonic_ms() + limit_ms
        while not condition():
            assert self.clock.monotonic_ms() < deadline_ms, f"not within {limit_ms} ms: {condition}"
            await self.clock.sleep_ms(5)

    async def until_loaded(self) -> None:
        await self.until(
            lambda: (
                not any(
                    node.groups.is_loading or node.transactions.is_loading for node in self.nodes.values()
                )
            )
        )

    async def until_replicated(self, topic: str, number: int = 0) -> None:
        """Wait until all replicas of a partition have the same log, and it is committed."""
        partition = TopicPartition(topic, number)

        def is_replicated() -> bool:
            replicas = [
                self[broker_id].replica_manager.get_partition(*partition)
                for broker_id in self.replicas[partition]
            ]
            offsets = {
                offset for each in replicas if each for offset in (each.log_end_offset, each.high_watermark)
            }
            return len(offsets) == 1

        await self.until(is_replicated)


class TransactionRouter:
    """Stands for a broker in ``TransactionalProducer``: sends each request to the broker it belongs to."""

    def __init__(self, fixture: CoordinatorCluster, coordinator: int, leader: int, groups: int = 1) -> None:
        self.cluster = fixture.cluster
        self.fixture = fixture
        self.coordinator, self.leader, self.groups = coordinator, leader, groups

    async def request(self, api_key: int, version: int, message: Any) -> Any:
        targets = {PRODUCE: self.leader, TXN_OFFSET_COMMIT: self.groups}
        node = self.fixture[targets.get(api_key, self.coordinator)]
        return await node.request(api_key, version, message)


Scenario = Callable[[CoordinatorCluster], Awaitable[None]]


def run_scenario(scenario: Scenario, size: int = 2, settings: Mapping[str, str] | None = None) -> None:
    """Run a scenario on a cluster of brokers 1 to ``size``."""

    async def main() -> None:
        cluster = MemoryCluster()
        controller = ScriptedBroker(cluster.network.host("controller"))
        await controller.listen("", PORT)
        blocks = count()
        controller.responses[ALLOCATE_PRODUCER_IDS] = lambda _: AllocateProducerIdsResponse(
            producer_id_start=next(blocks) * 1000, producer_id_len=1000
        )
        controller.responses[CONTROLLED_SHUTDOWN] = lambda _: ControlledShutdownResponse()
        fixture = CoordinatorCluster(cluster, controller)
        await cluster.hold_controller(CONTROLLER_ID)
        try:
            for broker_id in range(1, size + 1):
                await fixture.start(broker_id, settings)
            await fixture.announce()
            await scenario(fixture)
        finally:
            for node in fixture.nodes.values():
                await node.stop()
            for scripted in fixture.scripted.values():
                scripted.close()
            controller.close()
            await cluster.close()

    run_virtually(main)


async def create_internal_topics(
    fixture: CoordinatorCluster,
    *,
    groups: int = 1,
    transactions: int = 1,
    replicas: tuple[int, ...] | None = None,
) -> None:
    """Create both internal topics, led by these brokers, and wait until they are loaded."""
    for topic, leader in ((OFFSETS_TOPIC, groups), (TRANSACTIONS_TOPIC, transactions)):
        await fixture.create(topic, 2, replicas or (leader,))
        await fixture.place(leader, topic)
    await fixture.until_loaded()
