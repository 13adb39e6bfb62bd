"""A broker whose controller did not announce a deletion to it: the topic leaves its metadata nevertheless."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from odradek.broker.topics.missed_deletions import RETRY_MS
from odradek.replication.control_requests import MetadataChange
from odradek.store.layout.znodes import ReplicaAssignment, TopicAssignment
from odradek.store.port import Unavailable
from odradek.store.topics import create_topic, mark_for_deletion, remove_topic
from odradek.testing.broker import MemoryBroker, MemoryCluster
from odradek.testing.clock import run_virtually
from odradek.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

UPDATE_METADATA = 6
CONTROLLER_ID = 9
TOPIC_IDS = {"orders": b"o" * 16, "payments": b"p" * 16}


class BrokerHarness:
    """Broker 1 under a controller that the test plays."""

    def __init__(self, cluster: MemoryCluster, memory_broker: MemoryBroker) -> None:
        self.memory_broker = memory_broker
        self.broker = memory_broker.broker
        self.store = cluster.ensemble.connect()
        self.changes: list[MetadataChange] = []
        self.broker.replica_manager.state_changes.metadata_observers.append(self.changes.append)

    @property
    def topics(self) -> set[str]:
        """Topics in the metadata of the broker."""
        return set(self.broker.metadata_cache.topics)

    @property
    def membership(self) -> Any:
        return self.broker._membership

    async def create(self, *names: str) -> None:
        for name in names:
            assignment = TopicAssignment(TOPIC_IDS[name], {0: ReplicaAssignment((2,))})
            await create_topic(self.store, name, assignment, {})

    async def update_metadata(self, controller_epoch: int, *names: str) -> None:
        """Send the live brokers and these topics; wait for what follows."""
        request = UpdateMetadataRequest(
            CONTROLLER_ID,
            controller_epoch=controller_epoch,
            broker_epoch=self.membership.broker_epoch,
            topic_states=[
                UpdateMetadataTopicState(
                    name,
                    TOPIC_IDS[name],
                    [UpdateMetadataPartitionState(name, 0, controller_epoch, 2, 0, [2], 0, [2], [])],
                )
                for name in names
            ],
            live_brokers=[
                UpdateMetadataBroker(1, endpoints=[UpdateMetadataEndpoint(9092, "broker-1", "PLAINTEXT", 0)])
            ],
        )
        client = await self.memory_broker.connect()
        assert (await client.request(UPDATE_METADATA, 8, request)).error_code == 0
        client.close()
        await self.settle()

    async def settle(self) -> None:
        await asyncio.sleep(0.5)


def run_broker(scenario: Callable[[BrokerHarness], Awaitable[None]]) -> None:
    async def main() -> None:
        cluster = MemoryCluster()
        await cluster.hold_controller(CONTROLLER_ID)
        memory_broker = await cluster.start({"controlled.shutdown.enable": "false"}, broker_id=1)
        try:
            await scenario(BrokerHarness(cluster, memory_broker))
        finally:
            await memory_broker.stop()
            await cluster.close()

    run_virtually(main)


def test_topic_deleted_by_a_controller_that_failed_leaves_the_metadata():
    async def scenario(harness):
        await harness.create("orders", "payments")
        await harness.update_metadata(5, "orders", "payments")
        await remove_topic(harness.store, "orders")
        await harness.update_metadata(6)
        assert harness.topics == {"payments"}
        assert harness.changes[-1].deleted_topics == ["orders"]
        assert harness.changes[-1].deleted_partitions == [("orders", 0)]

    run_broker(scenario)


def test_topic_deleted_while_the_broker_was_not_registered_leaves_the_metadata():
    async def scenario(harness):
        await harness.create("orders", "payments")
        await harness.update_metadata(5, "orders", "payments")
        epoch = harness.membership.broker_epoch
        await harness.memory_broker.expire_session()
        await remove_topic(harness.store, "orders")
        while harness.membership.broker_epoch == epoch:
            await asyncio.sleep(0.1)
        await harness.update_metadata(5, "payments")
        assert harness.topics == {"payments"}

    run_broker(scenario)


def test_topics_are_not_looked_up_for_further_requests_of_a_controller():
    async def scenario(harness):
        await harness.update_metadata(5, "orders")
        await harness.update_metadata(5, "payments")
        assert harness.topics == {"orders", "payments"}

    run_broker(scenario)


def test_deletion_that_the_controller_had_begun_is_noticed_at_its_end():
    async def scenario(harness):
        await harness.create("orders", "payments")
        await harness.update_metadata(5, "orders", "payments")
        await mark_for_deletion(harness.store, "orders")
        await harness.update_metadata(6, "payments")
        assert harness.topics == {"orders", "payments"}
        await mark_for_deletion(harness.store, "payments")
        await harness.settle()
        await remove_topic(harness.store, "orders")
        await remove_topic(harness.store, "payments")
        await harness.settle()
        # The controller has named payments, and will announce its deletion.
        assert harness.topics == {"payments"}

    run_broker(scenario)


def test_topic_that_is_created_again_during_the_lookup_stays():
    async def scenario(harness):
        await harness.update_metadata(5, "orders")
        store, children = harness.membership.store, harness.membership.store.children
        may_go_on = asyncio.Event()

        async def late_children(path):
            names = await children(path)
            await may_go_on.wait()
            return names

        store.children = late_children
        await harness.update_metadata(6)
        await harness.update_metadata(6, "orders")
        may_go_on.set()
        await harness.settle()
        assert harness.topics == {"orders"}

    run_broker(scenario)


def test_lookup_is_repeated_when_the_store_was_unavailable():
    async def scenario(harness):
        await harness.update_metadata(5, "orders")
        store, multi = harness.membership.store, harness.membership.store.multi

        async def failing_multi(ops):
            store.multi = multi
            raise Unavailable

        store.multi = failing_multi
        await harness.update_metadata(6)
        assert harness.topics == {"orders"}
        await asyncio.sleep(RETRY_MS / 1000)
        assert harness.topics == set()

    run_broker(scenario)
