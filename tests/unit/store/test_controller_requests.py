"""Requests to the controller in the store: reassignments, preferred elections, notifications."""

from __future__ import annotations

import asyncio

import pytest

from odradek.model.ids import TopicPartition
from odradek.store.broker_registration import create_top_level_paths
from odradek.store.controller_election import ControllerMoved, Fence, elect
from odradek.store.controller_requests import (
    Notifications,
    delete_isr_change_notifications,
    delete_log_dir_notifications,
    delete_preferred_election_request,
    watch_isr_change_notifications,
    watch_log_dir_notifications,
    watch_preferred_election_request,
    watch_reassignment_request,
    write_reassignment_request,
)
from odradek.store.embedded.ensemble import EmbeddedEnsemble, EmbeddedStore
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import encode_log_dir_event, encode_partitions

ORDERS = [TopicPartition("orders", number) for number in range(3)]
TARGETS = {ORDERS[0]: (1, 2), ORDERS[1]: (2, 3)}


async def open_store(ensemble: EmbeddedEnsemble) -> tuple[EmbeddedStore, Fence]:
    store = ensemble.connect()
    await create_top_level_paths(store)
    fence = await elect(store, 1, 0)
    assert fence is not None
    return store, fence


async def replace_controller(ensemble: EmbeddedEnsemble, store: EmbeddedStore) -> None:
    await store.delete(znode_paths.CONTROLLER)
    assert await elect(ensemble.connect(), 2, 0) is not None


def test_reassignment_request_is_written_shrunk_and_deleted(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store, fence = await open_store(ensemble)
        fired: list[object] = []
        assert await watch_reassignment_request(store, fired.append) is None
        await write_reassignment_request(store, TARGETS, fence)
        await asyncio.sleep(0)
        assert len(fired) == 1
        assert await watch_reassignment_request(store, fired.append) == TARGETS
        await write_reassignment_request(store, {ORDERS[1]: (2, 3)}, fence)
        await asyncio.sleep(0)
        assert len(fired) == 2
        assert await watch_reassignment_request(store, fired.append) == {ORDERS[1]: (2, 3)}
        await write_reassignment_request(store, {}, fence)
        assert await store.exists(znode_paths.REASSIGN_PARTITIONS) is None
        await write_reassignment_request(store, {}, fence)

    run_on_store(scenario)


def test_preferred_election_request_is_read_and_deleted(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store, fence = await open_store(ensemble)
        fired: list[object] = []
        assert await watch_preferred_election_request(store, fired.append) is None
        await store.create(znode_paths.PREFERRED_REPLICA_ELECTION, encode_partitions(ORDERS))
        await asyncio.sleep(0)
        assert len(fired) == 1
        assert await watch_preferred_election_request(store, fired.append) == ORDERS
        await delete_preferred_election_request(store, fence)
        await delete_preferred_election_request(store, fence)
        assert await watch_preferred_election_request(store, fired.append) is None

    run_on_store(scenario)


def test_undecodable_requests_are_empty_so_that_they_are_deleted(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store, _ = await open_store(ensemble)
        await store.create(znode_paths.REASSIGN_PARTITIONS, b"no json")
        await store.create(znode_paths.PREFERRED_REPLICA_ELECTION, b"{}")
        assert await watch_reassignment_request(store, print) == {}
        assert await watch_preferred_election_request(store, print) == []

    run_on_store(scenario)


def test_isr_changes_are_collected_and_deleted_by_name(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store, fence = await open_store(ensemble)
        fired: list[object] = []
        assert await watch_isr_change_notifications(store, fired.append) == Notifications(())
        path = f"{znode_paths.ISR_CHANGE_NOTIFICATION}/{znode_paths.ISR_CHANGE_PREFIX}"
        for data in (encode_partitions(ORDERS[:2]), b"no json", encode_partitions(ORDERS[1:])):
            await store.create(path, data, sequence=True)
        await asyncio.sleep(0)
        assert len(fired) == 1
        notifications = await watch_isr_change_notifications(store, fired.append)
        assert notifications.partitions == set(ORDERS)
        assert [name[-1] for name in notifications.names] == ["0", "1", "2"]
        await store.create(path, encode_partitions(ORDERS), sequence=True)
        await delete_isr_change_notifications(store, notifications.names, fence)
        await delete_isr_change_notifications(store, notifications.names, fence)
        left = await watch_isr_change_notifications(store, fired.append)
        assert [name[-1] for name in left.names] == ["3"]

    run_on_store(scenario)


def test_log_dir_failures_name_brokers(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store, fence = await open_store(ensemble)
        path = f"{znode_paths.LOG_DIR_EVENT_NOTIFICATION}/{znode_paths.LOG_DIR_EVENT_PREFIX}"
        for broker_id in (4, 5, 4):
            await store.create(path, encode_log_dir_event(broker_id), sequence=True)
        notifications = await watch_log_dir_notifications(store, print)
        assert notifications.broker_ids == {4, 5}
        await delete_log_dir_notifications(store, notifications.names, fence)
        assert await watch_log_dir_notifications(store, print) == Notifications(())

    run_on_store(scenario)


def test_former_controller_deletes_nothing(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store, fence = await open_store(ensemble)
        await store.create(znode_paths.PREFERRED_REPLICA_ELECTION, encode_partitions(ORDERS))
        await write_reassignment_request(store, TARGETS)
        path = f"{znode_paths.LOG_DIR_EVENT_NOTIFICATION}/{znode_paths.LOG_DIR_EVENT_PREFIX}"
        await store.create(path, encode_log_dir_event(1), sequence=True)
        names = (await watch_log_dir_notifications(store, print)).names
        await replace_controller(ensemble, store)
        for write in (
            delete_preferred_election_request(store, fence),
            write_reassignment_request(store, {}, fence),
            write_reassignment_request(store, {ORDERS[0]: (1,)}, fence),
            delete_log_dir_notifications(store, names, fence),
        ):
            with pytest.raises(ControllerMoved):
                await write
        assert await watch_reassignment_request(store, print) == TARGETS
        assert await watch_preferred_election_request(store, print) == ORDERS

    run_on_store(scenario)
