"""A follower's fetchers copy the log of a leader's broker, with the real requests of both."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.unit.broker.handlers.controller_client import FOLLOWER, ControllerClient
from tests.unit.replication.conftest import ReplicationFixture, make_leader_and_isr

from odradek.cluster.metadata_cache import BrokerMetadata, MetadataUpdate
from odradek.cluster.metadata_version import MetadataVersion
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.replication.fetchers.fetcher_manager import ReplicaFetcherManager
from odradek.replication.fetchers.fetcher_settings import FetcherSettings
from odradek.replication.isr.alter_partition_manager import AlterPartitionManager
from odradek.testing.entropy import SeededEntropy
from odradek.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from odradek.wire.messages.fetch import FetchRequest
from odradek.wire.messages.list_offsets import ListOffsetsRequest
from odradek.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest

ORDERS = TopicPartition("orders", 0)
APIS = {FetchRequest: (1, 17), ListOffsetsRequest: (2, 9), OffsetForLeaderEpochRequest: (23, 4)}


class Connection:
    """Channel over a connection to the broker under test."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def send(self, request: Any, timeout_ms: int, *, version_max: int | None = None) -> Any:
        api_key, version = APIS[type(request)]
        return await self._client.request(api_key, min(version, version_max or version), request)

    async def close(self) -> None:
        self._client.close()


class Connections:
    """Requests of the follower to its leader."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def open_channel(self, broker_id: int, name: str) -> Connection:
        return Connection(self._client)


class FollowerBroker:
    """The replica manager and the fetchers of broker 7."""

    def __init__(self, harness: Any, client: Any) -> None:
        self._harness = harness
        self.fixture = ReplicationFixture(FOLLOWER)
        self.fixture.clock = harness.cluster.clock
        self.fetchers = ReplicaFetcherManager(
            Connections(client),  # type: ignore[arg-type]
            lambda: FetcherSettings(
                FOLLOWER, lambda: -1, MetadataVersion.parse("3.9"), 1, 500, 1, 1 << 20, 1 << 24, 100, 30_000
            ),
            harness.cluster.clock,
            SeededEntropy(),
            lambda topic_partition: None,
            lambda topic_partition, error: None,
        )

    async def follow(self, leader: int, leader_epoch: int) -> Any:
        fixture = self.fixture
        if not hasattr(fixture, "replicas"):
            fixture.metadata_cache.apply(MetadataUpdate({leader: BrokerMetadata(leader, {})}))
            await fixture.open()
            fixture.replicas.state_changes.fetcher_manager = self.fetchers
        state = make_leader_and_isr(
            leader, leader_epoch, (leader,), (leader, FOLLOWER), partition_epoch=leader_epoch
        )
        return await fixture.make_leader_or_follower(state, topic_id=self._harness.topic_id("orders"))


class AcceptingController:
    """Accepts every ISR change."""

    def __init__(self) -> None:
        self.isrs: list[list[int]] = []

    async def send_to_controller(
        self, request: AlterPartitionRequest, timeout_ms: int, *, version_max: int | None = None
    ) -> AlterPartitionResponse:
        ((topic, partition),) = [(topic, topic.partitions[0]) for topic in request.topics]
        self.isrs.append(partition.new_isr)
        entry = AlterPartitionResponsePartitionData(
            partition.partition_index,
            0,
            request.broker_id,
            partition.leader_epoch,
            partition.new_isr,
            0,
            partition.partition_epoch + 1,
        )
        return AlterPartitionResponse(0, 0, [AlterPartitionResponseTopicData("", topic.topic_id, [entry])])


def test_follower_replicates_joins_the_isr_and_acknowledges(run_scenario):
    async def scenario(harness):
        await harness.create("orders", settings={"min.insync.replicas": "2"})
        controller = ControllerClient(harness)
        leader_id = controller.broker_id
        await controller.announce_brokers(FOLLOWER)
        changes = AcceptingController()
        replica_manager = harness.broker._replica_manager
        replica_manager.isr_changes.alter_partition_manager = AlterPartitionManager(
            leader_id,
            lambda: 1,
            changes,  # type: ignore[arg-type]
            harness.cluster.clock,
            lambda: 30_000,
        )
        await controller.set_leader("orders", isr=(leader_id,))
        refused = await harness.produce("orders", b"refused")
        assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        for value in (b"a", b"b"):
            assert (await harness.produce("orders", value, acks=1)).error_code == 0

        follower = FollowerBroker(harness, await harness.memory_broker.connect())
        copy = await follower.follow(leader_id, 1)
        await asyncio.sleep(2)
        assert changes.isrs == [[leader_id, FOLLOWER]]
        leader = replica_manager.get_leader_partition(*ORDERS)
        assert leader.leader_state.isr == (leader_id, FOLLOWER)
        assert (copy.log_end_offset, copy.high_watermark, leader.high_watermark) == (2, 2, 2)

        assert (await harness.produce("orders", b"c")).error_code == 0
        assert (copy.log_end_offset, leader.high_watermark) == (3, 3)
        await controller.set_leader("orders", leader_epoch=2)
        await follower.follow(leader_id, 2)
        assert (await harness.produce("orders", b"d")).error_code == 0
        await asyncio.sleep(2)
        assert (copy.log_end_offset, copy.high_watermark) == (4, 4)
        assert copy.log.epochs.entries == leader.log.epochs.entries

        await follower.fetchers.close()
        lag_ms = 30_000
        await asyncio.sleep(lag_ms / 1000 + 1)
        await harness.produce("orders", b"e", acks=1)
        await replica_manager.shrink_isrs()
        await asyncio.sleep(1)
        assert leader.leader_state.isr == (leader_id,)
        assert (await harness.produce("orders", b"f")).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert leader.high_watermark == 4, "it stands still below min.insync.replicas"

    run_scenario(scenario)
