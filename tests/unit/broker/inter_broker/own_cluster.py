"""A cluster of our brokers on one store, under a controller of their own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from odradek.broker.membership import Membership
from odradek.controller.controller import Controller
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.records.batch import BatchBuilder
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import LeaderIsrAndControllerEpoch
from odradek.store.partition_states import read_partition_states
from odradek.testing.broker import Client, MemoryBroker, MemoryCluster
from odradek.testing.clock import run_virtually
from odradek.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PRODUCE, CREATE_TOPICS = 0, 19
SETTINGS: Final = {
    "controlled.shutdown.max.retries": "3",
    "controlled.shutdown.retry.backoff.ms": "500",
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "10000",
    "auto.leader.rebalance.enable": "false",
}


class OwnCluster:
    """Brokers 1 to N; any of them may be the controller."""

    def __init__(self, cluster: MemoryCluster, settings: Mapping[str, str]) -> None:
        self.cluster = cluster
        self.clock = cluster.clock
        self.store = cluster.ensemble.connect()
        self.brokers: dict[int, MemoryBroker] = {}
        self._settings = {**SETTINGS, **settings}

    async def start(self, *broker_ids: int, settings: Mapping[str, str] | None = None) -> None:
        for broker_id in broker_ids:
            values = {**self._settings, **(settings or {})}
            self.brokers[broker_id] = await self.cluster.start(values, broker_id=broker_id)

    async def stop(self, broker_id: int) -> None:
        await self.brokers.pop(broker_id).stop()

    async def kill(self, broker_id: int, *, expires_session: bool = True) -> MemoryBroker:
        broker = self.brokers.pop(broker_id)
        await broker.kill(expires_session=expires_session)
        return broker

    # The controller.

    def membership(self, broker_id: int) -> Membership:
        membership = self.brokers[broker_id].broker._membership
        assert membership is not None
        return membership

    def controllers(self) -> dict[int, Controller]:
        """Return the brokers that believe to be the controller."""
        memberships = {broker_id: self.membership(broker_id) for broker_id in self.brokers}
        return {b: m.controller for b, m in memberships.items() if m.controller is not None}

    @property
    def controller_id(self) -> int:
        (controller_id,) = self.controllers()
        return controller_id

    async def until_controller(self, *, after: int = 0) -> int:
        """Wait until a broker is the controller, under a later epoch, and every broker knows it."""

        def is_known() -> bool:
            controllers = self.controllers()
            if len(controllers) != 1:
                return False
            ((broker_id, controller),) = controllers.items()
            caches = [broker.broker.metadata_cache for broker in self.brokers.values()]
            return controller.controller_epoch > after and all(
                cache.controller_id == broker_id and cache.brokers.keys() == self.brokers.keys()
                for cache in caches
            )

        await self.until(is_known)
        return self.controller_id

    # Topics and partitions.

    async def create_topic(
        self, name: str, *replicas: tuple[int, ...], configs: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic with these replicas, through the controller; wait until all brokers know it."""
        assignments = [
            CreatableReplicaAssignment(number, list(assigned)) for number, assigned in enumerate(replicas)
        ]
        topic = CreatableTopic(
            name, -1, -1, assignments, [CreatableTopicConfig(*item) for item in (configs or {}).items()]
        )
        client = await self.connect(self.controller_id)
        response = await client.request(CREATE_TOPICS, 7, CreateTopicsRequest([topic], timeout_ms=30_000))
        client.close()
        assert ErrorCode(response.topics[0].error_code) is ErrorCode.NONE, response
        for number, assigned in enumerate(replicas):
            await self.until_leader(TopicPartition(name, number), assigned[0])

    async def state(self, partition: TopicPartition) -> LeaderIsrAndControllerEpoch:
        """Return the stored state of a partition."""
        return (await read_partition_states(self.store, [partition]))[partition].leader_and_isr

    async def until_leader(self, partition: TopicPartition, leader: int) -> None:
        """Wait until a broker leads a partition, and every broker knows it."""

        def is_known() -> bool:
            for broker in self.brokers.values():
                known = broker.broker.metadata_cache.partition(*partition)
                if known is None or known.leader != leader:
                    return False
            led = self.brokers[leader].broker.replica_manager.get_partition(*partition)
            return led is not None and led.is_leader

        await self.until(is_known)

    async def until_isr(self, partition: TopicPartition, *isr: int) -> None:
        await self.until_stored(partition, lambda state: set(state.isr) == set(isr))

    async def until_stored(
        self, partition: TopicPartition, condition: Callable[[LeaderIsrAndControllerEpoch], bool]
    ) -> None:
        deadline_ms = self.clock.monotonic_ms() + 120_000
        while not condition(state := await self.state(partition)):
            assert self.clock.monotonic_ms() < deadline_ms, f"state of {partition} is {state}"
            await self.clock.sleep_ms(20)

    async def until_deleted(self, topic: str) -> None:
        """Wait until no broker and no node knows a topic."""
        deadline_ms = self.clock.monotonic_ms() + 120_000
        while await self.store.exists(znode_paths.topic(topic)) is not None or any(
            broker.broker.metadata_cache.topic(topic) is not None for broker in self.brokers.values()
        ):
            assert self.clock.monotonic_ms() < deadline_ms, f"topic {topic} is not deleted"
            await self.clock.sleep_ms(20)

    # Clients.

    async def connect(self, broker_id: int) -> Client:
        return await self.brokers[broker_id].connect()

    async def request(self, broker_id: int, api_key: int, version: int, message: Any) -> Any:
        client = await self.connect(broker_id)
        try:
            return await client.request(api_key, version, message)
        finally:
            client.close()

    async def produce(self, broker_id: int, partition: TopicPartition, value: bytes) -> ErrorCode:
        """Produce a record with acks=all; return the error."""
        batch = BatchBuilder()
        batch.append(self.clock.wall_ms(), None, value)
        part = PartitionProduceData(partition.partition, bytearray(batch.build()))
        request = ProduceRequest(None, -1, 30_000, [TopicProduceData(partition.topic, [part])])
        response = await self.request(broker_id, PRODUCE, 9, request)
        return ErrorCode(response.responses[0].partition_responses[0].error_code)

    async def until(self, condition: Callable[[], bool], limit_ms: int = 120_000) -> None:
        deadline_ms = self.clock.monotonic_ms() + limit_ms
        while not condition():
            assert self.clock.monotonic_ms() < deadline_ms, f"not within {limit_ms} ms"
            await self.clock.sleep_ms(20)


def run_cluster(
    scenario: Callable[[OwnCluster], Awaitable[None]],
    size: int = 3,
    settings: Mapping[str, str] | None = None,
    seed: int = 0,
) -> None:
    """Run a scenario on brokers 1 to ``size``, of which the first is the controller."""

    async def main() -> None:
        cluster = MemoryCluster(seed, delay_max_ms=5)
        own = OwnCluster(cluster, settings or {})
        try:
            await own.start(*range(1, size + 1))
            if size:
                await own.until_controller()
            await scenario(own)
        finally:
            for broker in own.brokers.values():
                await broker.kill()
            await cluster.close()

    run_virtually(main)
