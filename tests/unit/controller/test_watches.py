"""Watches of the controller: what is loaded, and which event each change in the store gives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.controller.event_queue import EventQueue
from odradek.controller.events import (
    BrokersChanged,
    IsrChangesNotified,
    LogDirFailuresNotified,
    PreferredElectionNodeChanged,
    ReassignmentNodeChanged,
    TopicDeletionsRequested,
    TopicsChanged,
)
from odradek.controller.machine.context import ControllerContext
from odradek.controller.watches import ControllerWatches
from odradek.model.ids import TopicPartition
from odradek.store.broker_registration import create_top_level_paths, register_broker, update_registration
from odradek.store.controller_election import ControllerMoved, Fence, elect
from odradek.store.embedded.database import MEMORY
from odradek.store.embedded.ensemble import EmbeddedEnsemble
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import (
    BrokerRegistration,
    RegisteredEndpoint,
    ReplicaAssignment,
    TopicAssignment,
    encode_log_dir_event,
    encode_partitions,
    encode_reassignment,
)
from odradek.store.topics import create_topic, mark_for_deletion, remove_topic, write_assignment
from odradek.testing.clock import VirtualClock, run_virtually

ORDERS = TopicPartition("orders", 0)


def assignment(partitions: int = 1, topic_id: bytes = b"o" * 16) -> TopicAssignment:
    return TopicAssignment(topic_id, {number: ReplicaAssignment((1,)) for number in range(partitions)})


def registration(port: int = 9092) -> BrokerRegistration:
    return BrokerRegistration((RegisteredEndpoint("PLAINTEXT", "PLAINTEXT", "h", port),), 0)


class WatchFixture:
    def __init__(self, ensemble: EmbeddedEnsemble) -> None:
        self.ensemble = ensemble
        self.store = ensemble.connect()
        self.context = ControllerContext(1)
        self.events = EventQueue()
        self.watches = ControllerWatches(ensemble.connect(), self.context, self.events.put_read, lambda: 0)
        self.fence: Any = None

    async def load(self) -> None:
        fence = await elect(self.store, 1, 0)
        assert fence is not None
        self.fence = fence
        await self.watches.load(fence)

    async def changes(self) -> list[Any]:
        """Return the events of all changes so far."""
        for _ in range(10):
            await asyncio.sleep(0)
        changes = []
        while not self.events.is_empty:
            queued = await self.events.get()
            assert queued.read is not None
            changes.append(await queued.read())
        return changes

    async def notify(self, root: str, prefix: str, data: bytes) -> str:
        return (await self.store.create(f"{root}/{prefix}", data, sequence=True)).rpartition("/")[2]


Scenario = Callable[[WatchFixture], Awaitable[None]]


@pytest.fixture
def run_scenario() -> Callable[[Scenario], None]:
    def run(scenario: Scenario) -> None:
        async def main() -> None:
            ensemble = EmbeddedEnsemble(MEMORY, VirtualClock(asyncio.get_running_loop()))
            fixture = WatchFixture(ensemble)
            await create_top_level_paths(fixture.store)
            try:
                await scenario(fixture)
            finally:
                await ensemble.close()

        run_virtually(main)

    return run


def test_context_is_loaded_and_old_notifications_are_deleted(run_scenario):
    async def scenario(fixture):
        await register_broker(fixture.store, 1, registration())
        await create_topic(fixture.store, "orders", assignment(2), {})
        await mark_for_deletion(fixture.store, "gone")
        log_dirs, prefix = znode_paths.LOG_DIR_EVENT_NOTIFICATION, znode_paths.LOG_DIR_EVENT_PREFIX
        await fixture.notify(log_dirs, prefix, encode_log_dir_event(1))
        await fixture.load()
        context = fixture.context
        assert list(context.brokers) == [1]
        assert context.brokers[1].registration == registration()
        assert context.topics == {"orders": assignment(2)}
        assert context.deletions.queued == {"gone"}
        assert await fixture.store.children(log_dirs) == []
        assert [change for change in await fixture.changes() if change is not None] == []

    run_scenario(scenario)


def test_fenced_controller_does_not_delete_notifications(run_scenario):
    async def scenario(fixture):
        isr, prefix = znode_paths.ISR_CHANGE_NOTIFICATION, znode_paths.ISR_CHANGE_PREFIX
        await fixture.notify(isr, prefix, encode_partitions([ORDERS]))
        assert await elect(fixture.store, 1, 0) is not None
        with pytest.raises(ControllerMoved):
            await fixture.watches.load(Fence(0, 0))
        assert len(await fixture.store.children(isr)) == 1

    run_scenario(scenario)


def test_brokers_come_change_and_go(run_scenario):
    async def scenario(fixture):
        await fixture.load()
        other = fixture.ensemble.connect()
        epoch = await register_broker(other, 2, registration())
        (change,) = await fixture.changes()
        assert isinstance(change, BrokersChanged)
        assert {b: live.broker_epoch for b, live in change.brokers.items()} == {2: epoch}
        await update_registration(other, 2, registration(9999))
        (change,) = await fixture.changes()
        assert change.brokers[2].registration.endpoints[0].port == 9999
        assert change.brokers[2].broker_epoch == epoch
        await other.close()
        assert await fixture.changes() == [BrokersChanged({})]
        # A bounce between two reads is seen by the epoch.
        for _ in range(2):
            other = fixture.ensemble.connect()
            later = await register_broker(other, 2, registration())
            if _ == 0:
                await other.close()
        (change,) = await fixture.changes()
        assert change.brokers[2].broker_epoch == later

    run_scenario(scenario)


def test_undecodable_nodes_are_skipped_and_read_again_once_repaired(run_scenario):
    async def scenario(fixture):
        await fixture.store.create(znode_paths.broker(7), b"no json")
        await fixture.store.create(znode_paths.topic("damaged"), b"no json")
        await create_topic(fixture.store, "orders", assignment(), {})
        await fixture.load()
        assert fixture.context.brokers == {}
        assert list(fixture.context.topics) == ["orders"]
        assert await fixture.changes() == []
        await write_assignment(fixture.store, "damaged", assignment(3))
        assert await fixture.changes() == [TopicsChanged({"damaged": assignment(3)})]

    run_scenario(scenario)


def test_new_topics_are_read_and_known_ones_are_not(run_scenario):
    async def scenario(fixture):
        await create_topic(fixture.store, "orders", assignment(), {})
        await fixture.load()
        await create_topic(fixture.store, "others", assignment(), {})
        await create_topic(fixture.store, "third", assignment(2), {})
        changes = await fixture.changes()
        assert changes == [TopicsChanged({"others": assignment(), "third": assignment(2)})]

    run_scenario(scenario)


def test_growth_of_a_topic_is_seen_each_time(run_scenario):
    async def scenario(fixture):
        await create_topic(fixture.store, "orders", assignment(), {})
        await fixture.load()
        for partitions in (2, 3, 4):
            await write_assignment(fixture.store, "orders", assignment(partitions))
            assert await fixture.changes() == [TopicsChanged({"orders": assignment(partitions)})]

    run_scenario(scenario)


def test_topic_that_the_controller_deleted_is_new_when_it_comes_back(run_scenario):
    async def scenario(fixture):
        await create_topic(fixture.store, "orders", assignment(), {})
        await fixture.load()
        await remove_topic(fixture.store, "orders")
        fixture.watches.forget_topic("orders")
        fixture.context.remove_topic("orders")
        assert [change for change in await fixture.changes() if change is not None] == []
        await create_topic(fixture.store, "orders", assignment(5), {})
        assert await fixture.changes() == [TopicsChanged({"orders": assignment(5)})]
        await write_assignment(fixture.store, "orders", assignment(6))
        assert await fixture.changes() == [TopicsChanged({"orders": assignment(6)})]

    run_scenario(scenario)


def test_topic_deleted_by_others_is_missing_from_a_complete_list(run_scenario):
    async def scenario(fixture):
        for topic in ("orders", "others"):
            await create_topic(fixture.store, topic, assignment(), {})
        await fixture.load()
        await remove_topic(fixture.store, "orders")
        changes = [change for change in await fixture.changes() if change is not None]
        assert changes == [TopicsChanged({"others": assignment()}, is_complete=True)]

    run_scenario(scenario)


def test_topic_deleted_and_recreated_by_others_stays_watched(run_scenario):
    async def scenario(fixture):
        await create_topic(fixture.store, "orders", assignment(), {})
        await fixture.load()
        recreated = assignment(2, b"n" * 16)
        await remove_topic(fixture.store, "orders")
        await create_topic(fixture.store, "orders", recreated, {})
        changes = [change for change in await fixture.changes() if change is not None]
        assert changes == [TopicsChanged({"orders": recreated})]
        await write_assignment(fixture.store, "orders", assignment(3, b"n" * 16))
        assert await fixture.changes() == [TopicsChanged({"orders": assignment(3, b"n" * 16)})]

    run_scenario(scenario)


def test_topic_recreated_after_its_watch_was_read_is_new(run_scenario):
    async def scenario(fixture):
        await create_topic(fixture.store, "orders", assignment(), {})
        await fixture.load()
        store, queued = fixture.store, fixture.events
        await remove_topic(store, "orders")
        for _ in range(10):
            await asyncio.sleep(0)
        # The topic's own watch is read while there is no node; the list of topics when there is one again.
        reads = [await queued.get() for _ in range(2)]
        own = next(item for item in reads if item.key == znode_paths.topic("orders"))
        assert own.read is not None
        assert await own.read() is None
        recreated = assignment(2, b"n" * 16)
        await create_topic(store, "orders", recreated, {})
        topics = next(item for item in reads if item.key == znode_paths.TOPICS)
        assert topics.read is not None
        assert await topics.read() == TopicsChanged({"orders": recreated})

    run_scenario(scenario)


def test_deletions_are_seen_each_time(run_scenario):
    async def scenario(fixture):
        await fixture.load()
        await mark_for_deletion(fixture.store, "orders")
        assert await fixture.changes() == [TopicDeletionsRequested(frozenset({"orders"}))]
        await mark_for_deletion(fixture.store, "others")
        assert await fixture.changes() == [TopicDeletionsRequested(frozenset({"orders", "others"}))]

    run_scenario(scenario)


def test_requests_of_tools_are_seen_at_the_start_and_later(run_scenario):
    async def scenario(fixture):
        reassign, elections = znode_paths.REASSIGN_PARTITIONS, znode_paths.PREFERRED_REPLICA_ELECTION
        await fixture.store.create(reassign, encode_reassignment({ORDERS: (2, 3)}))
        await fixture.load()
        fixture.watches.load_requests()
        assert await fixture.changes() == [ReassignmentNodeChanged({ORDERS: (2, 3)}), None]
        await fixture.store.set(reassign, encode_reassignment({ORDERS: (3,)}))
        await fixture.store.create(elections, encode_partitions([ORDERS]))
        assert await fixture.changes() == [
            ReassignmentNodeChanged({ORDERS: (3,)}),
            PreferredElectionNodeChanged(frozenset({ORDERS})),
        ]
        for path in (reassign, elections):
            await fixture.store.delete(path)
        assert await fixture.changes() == [None, None]
        await fixture.store.create(elections, encode_partitions([]))
        assert await fixture.changes() == [PreferredElectionNodeChanged(frozenset())]

    run_scenario(scenario)


def test_notifications_are_seen_with_their_names(run_scenario):
    async def scenario(fixture):
        await fixture.load()
        await fixture.changes()
        isr = await fixture.notify(
            znode_paths.ISR_CHANGE_NOTIFICATION, znode_paths.ISR_CHANGE_PREFIX, encode_partitions([ORDERS])
        )
        log_dir = await fixture.notify(
            znode_paths.LOG_DIR_EVENT_NOTIFICATION,
            znode_paths.LOG_DIR_EVENT_PREFIX,
            encode_log_dir_event(3),
        )
        assert await fixture.changes() == [
            IsrChangesNotified(frozenset({ORDERS}), (isr,)),
            LogDirFailuresNotified(frozenset({3}), (log_dir,)),
        ]

    run_scenario(scenario)


def test_many_changes_give_one_read(run_scenario):
    async def scenario(fixture):
        await fixture.load()
        for number in range(100):
            await create_topic(fixture.store, f"t{number}", assignment(), {})
        (change,) = await fixture.changes()
        assert len(change.topics) == 100

    run_scenario(scenario)
