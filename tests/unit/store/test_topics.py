"""Topics, partition states, configs and consumer offsets in the store."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from odradek.model.ids import TopicPartition
from odradek.store.broker_registration import create_top_level_paths
from odradek.store.configs import (
    CHANGE_KEPT_MS,
    ConfigChange,
    change_config,
    delete_expired_config_changes,
    read_config,
    read_configs,
    read_pair_configs,
    read_user_pair_configs,
    update_config,
    watch_config_changes,
)
from odradek.store.consumer_offsets import read_consumer_offsets, write_consumer_offset
from odradek.store.controller_election import ControllerMoved, Fence, elect
from odradek.store.embedded.ensemble import EmbeddedEnsemble
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import LeaderIsrAndControllerEpoch, ReplicaAssignment, TopicAssignment
from odradek.store.partition_states import (
    VersionedLeaderAndIsr,
    create_partition_states,
    read_partition_states,
    write_partition_states,
)
from odradek.store.port import BadPath, BadVersion, NodeExists, NoNode, WatchedEvent, WatchedEventType
from odradek.store.topics import (
    VersionedTopic,
    create_topic,
    mark_for_deletion,
    read_marked_for_deletion,
    read_topics,
    remove_topic,
    unmark_for_deletion,
    write_assignment,
)

ORDERS = TopicAssignment(bytes(range(16)), {n: ReplicaAssignment((1, 2)) for n in range(3)})
GROWN = TopicAssignment(bytes(range(16)), {n: ReplicaAssignment((1, 2)) for n in range(5)})
FRESH = LeaderIsrAndControllerEpoch(1, 0, (1, 2), 1)
SHRUNK = LeaderIsrAndControllerEpoch(1, 0, (1,), 1)
PARTITIONS = [TopicPartition("orders", n) for n in range(3)]


def test_topic_and_config_are_created_in_one_write(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await create_top_level_paths(store)
        zxid = ensemble.tree.zxid
        await create_topic(store, "orders", ORDERS, {"retention.ms": "1"})
        assert ensemble.tree.zxid == zxid + 1
        assert await read_topics(store) == {"orders": VersionedTopic(ORDERS, 0)}
        assert await read_config(store, "topics", "orders") == {"retention.ms": "1"}
        assert await watch_config_changes(store) == []

    run_on_store(scenario)


def test_existing_topic_is_rejected_and_keeps_its_config(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await create_topic(store, "orders", ORDERS, {"a": "1"})
        with pytest.raises(NodeExists) as caught:
            await create_topic(store, "orders", GROWN, {"a": "2"})
        assert caught.value.path == znode_paths.topic("orders")
        assert await read_config(store, "topics", "orders") == {"a": "1"}

    run_on_store(scenario)


def test_config_of_a_former_topic_is_replaced(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await change_config(store, "topics", "orders", {"old": "1"})
        await create_topic(store, "orders", ORDERS, {})
        assert await read_config(store, "topics", "orders") == {}
        assert (await store.get(znode_paths.config("topics", "orders")))[0] == b'{"version":1,"config":{}}'

    run_on_store(scenario)


def test_one_of_two_concurrent_creations_succeeds(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        stores = [ensemble.connect(), ensemble.connect()]
        done = await asyncio.gather(
            *(create_topic(store, "orders", ORDERS, {}) for store in stores), return_exceptions=True
        )
        assert sorted(type(first).__name__ for first in done) == ["NodeExists", "NoneType"]

    run_on_store(scenario)


def test_topic_watch_fires_on_creation(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await create_top_level_paths(store)
        events: list[WatchedEvent] = []
        assert await read_topics(store, watcher=events.append) == {}
        await create_topic(store, "orders", ORDERS, {})
        await asyncio.sleep(0)
        assert events == [WatchedEvent(WatchedEventType.CHILDREN, znode_paths.TOPICS)]

    run_on_store(scenario)


def test_assignment_write_checks_the_version(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await create_topic(store, "orders", ORDERS, {})
        assert await write_assignment(store, "orders", GROWN, 0) == 1
        with pytest.raises(BadVersion):
            await write_assignment(store, "orders", ORDERS, 0)
        assert await read_topics(store, ["orders", "none"]) == {"orders": VersionedTopic(GROWN, 1)}

    run_on_store(scenario)


def test_partition_states_are_created_once_and_read_in_bulk(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await create_topic(store, "orders", ORDERS, {})
        assert await read_partition_states(store, PARTITIONS) == {}
        created = await create_partition_states(store, dict.fromkeys(PARTITIONS[:2], FRESH))
        assert created == {PARTITIONS[0]: 0, PARTITIONS[1]: 0}
        recreated = await create_partition_states(store, dict.fromkeys(PARTITIONS, FRESH))
        assert isinstance(recreated[PARTITIONS[0]], NodeExists)
        assert recreated[PARTITIONS[2]] == 0
        assert await read_partition_states(store, PARTITIONS) == dict.fromkeys(
            PARTITIONS, VersionedLeaderAndIsr(FRESH, 0)
        )

    run_on_store(scenario)


def test_state_is_created_below_leftover_nodes(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await create_topic(store, "orders", ORDERS, {})
        await store.ensure_path(znode_paths.partition(PARTITIONS[0]))
        assert await create_partition_states(store, {PARTITIONS[0]: FRESH}) == {PARTITIONS[0]: 0}

    run_on_store(scenario)


def test_stale_partition_state_fails_alone(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await create_topic(store, "orders", ORDERS, {})
        await create_partition_states(store, dict.fromkeys(PARTITIONS[:2], FRESH))
        outcome = await write_partition_states(
            store,
            {
                PARTITIONS[0]: VersionedLeaderAndIsr(SHRUNK, 0),
                PARTITIONS[1]: VersionedLeaderAndIsr(SHRUNK, 9),
                PARTITIONS[2]: VersionedLeaderAndIsr(SHRUNK, 0),
            },
        )
        assert outcome[PARTITIONS[0]] == 1
        assert isinstance(outcome[PARTITIONS[1]], BadVersion)
        assert isinstance(outcome[PARTITIONS[2]], NoNode)

    run_on_store(scenario)


def test_fenced_controller_writes_no_state(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        fence = await elect(store, 1, 1)
        assert fence is not None
        await create_topic(store, "orders", ORDERS, {})
        await create_partition_states(store, {PARTITIONS[0]: FRESH}, fence)
        former = Fence(fence.controller_epoch - 1, fence.epoch_version - 1)
        wrote = await write_partition_states(store, {PARTITIONS[0]: VersionedLeaderAndIsr(SHRUNK, 0)}, former)
        created = await create_partition_states(store, {PARTITIONS[1]: FRESH}, former)
        assert isinstance(wrote[PARTITIONS[0]], ControllerMoved)
        assert isinstance(created[PARTITIONS[1]], ControllerMoved)
        with pytest.raises(ControllerMoved):
            await write_assignment(store, "orders", GROWN, fence=former)
        with pytest.raises(ControllerMoved):
            await remove_topic(store, "orders", former)
        assert await read_partition_states(store, PARTITIONS) == {
            PARTITIONS[0]: VersionedLeaderAndIsr(FRESH, 0)
        }

    run_on_store(scenario)


def test_removed_topic_leaves_no_nodes(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await create_top_level_paths(store)
        before = set(ensemble.tree.nodes)
        many = [TopicPartition("orders", n) for n in range(1200)]
        await create_topic(store, "orders", ORDERS, {"a": "1"})
        await create_partition_states(store, dict.fromkeys(many, FRESH))
        await mark_for_deletion(store, "orders")
        with pytest.raises(NodeExists):
            await mark_for_deletion(store, "orders")
        assert await read_marked_for_deletion(store) == {"orders"}
        await remove_topic(store, "orders")
        assert set(ensemble.tree.nodes) == before
        await remove_topic(store, "orders")

    run_on_store(scenario)


def test_deletion_mark_without_topic_is_removed(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        assert await read_marked_for_deletion(store) == set()
        await mark_for_deletion(store, "ghost")
        await unmark_for_deletion(store, ["ghost", "other"])
        assert await read_marked_for_deletion(store) == set()

    run_on_store(scenario)


def test_config_and_change_notification_are_one_write(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await create_top_level_paths(store)
        events: list[WatchedEvent] = []
        assert await watch_config_changes(store, events.append) == []
        zxid = ensemble.tree.zxid
        await change_config(store, "topics", "orders", {"a": "1"})
        assert ensemble.tree.zxid == zxid + 1
        await change_config(store, "topics", "orders", {"a": "2"})
        await change_config(store, "brokers", znode_paths.DEFAULT_ENTITY, {"b": "1"})
        await asyncio.sleep(0)
        assert events == [WatchedEvent(WatchedEventType.CHILDREN, znode_paths.CONFIG_CHANGES)]
        assert await watch_config_changes(store) == [
            ConfigChange("config_change_0000000000", "topics/orders"),
            ConfigChange("config_change_0000000001", "topics/orders"),
            ConfigChange("config_change_0000000002", "brokers/<default>"),
        ]
        assert await read_configs(store, "topics") == {"orders": {"a": "2"}}
        assert await read_configs(store, "brokers") == {"<default>": {"b": "1"}}
        assert await read_configs(store, "nothing") == {}
        assert await read_config(store, "topics", "none") == {}

    run_on_store(scenario)


def test_invalid_notification_does_not_hide_others(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await change_config(store, "topics", "a", {})
        await store.create(f"{znode_paths.CONFIG_CHANGES}/config_change_", b"garbage", sequence=True)
        assert [change.entity_path for change in await watch_config_changes(store)] == ["topics/a", None]

    run_on_store(scenario)


def test_config_of_a_pair_is_created_and_removed_with_its_parents(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await create_top_level_paths(store)
        for name in ("alice/clients/a", "alice/clients/b", "bob/clients/a"):
            await update_config(store, "users", name, lambda config: {**config, "k": "1"})
        await update_config(store, "users", "bob", lambda config: {"own": "1"})
        names = ("alice/clients/a", "alice/clients/b", "bob/clients/a")
        assert await read_pair_configs(store) == {name: {"k": "1"} for name in names}
        assert set(await read_user_pair_configs(store, "alice")) == {"alice/clients/a", "alice/clients/b"}
        assert await read_user_pair_configs(store, "nobody") == {}
        for name in ("alice/clients/a", "bob/clients/a"):
            await update_config(store, "users", name, lambda config: {})
        assert sorted(await store.children("/config/users")) == ["alice", "bob"]
        assert await store.exists("/config/users/bob/clients") is None
        assert await read_config(store, "users", "bob") == {"own": "1"}
        await update_config(store, "users", "alice/clients/b", lambda config: {})
        assert await store.children("/config/users") == ["bob"]
        changes = [change.entity_path for change in await watch_config_changes(store)]
        assert changes[-1] == "users/alice/clients/b"
        await update_config(store, "users", "nobody/clients/a", lambda config: {})
        assert await store.children("/config/users") == ["bob"]
        assert len(await watch_config_changes(store)) == len(changes), "nothing has changed"

    run_on_store(scenario)


def test_config_of_a_user_with_client_ids_is_emptied_and_kept(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        for name in ("alice", "alice/clients/a"):
            await update_config(store, "users", name, lambda config: {"k": "1"})
        await update_config(store, "users", "alice", lambda config: {})
        assert await read_config(store, "users", "alice") == {}
        assert await read_pair_configs(store) == {"alice/clients/a": {"k": "1"}}

    run_on_store(scenario)


def test_concurrent_updates_of_a_config_are_all_kept(run_on_store) -> None:
    def add(number: int, config: dict[str, str]) -> dict[str, str]:
        return {**config, f"k{number}": "1"}

    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        stores = [ensemble.connect() for _ in range(5)]
        await create_top_level_paths(stores[0])
        name = "alice/clients/a"
        await asyncio.gather(
            *(
                update_config(store, "users", name, partial(add, number))
                for number, store in enumerate(stores)
            )
        )
        assert len(await read_config(stores[0], "users", name)) == 5

    run_on_store(scenario)


def test_rejected_update_writes_nothing(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()

        def reject(config: dict[str, str]) -> dict[str, str]:
            raise KeyError("no")

        with pytest.raises(KeyError):
            await update_config(store, "users", "alice", reject)
        assert await store.exists("/config") is None

    run_on_store(scenario)


def test_expired_notifications_are_deleted(run_on_store, clock) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await change_config(store, "topics", "a", {})
        clock.now_ms += CHANGE_KEPT_MS
        await change_config(store, "topics", "b", {})
        assert await delete_expired_config_changes(store, clock.now_ms) == 0
        assert await delete_expired_config_changes(store, clock.now_ms + 1) == 1
        assert [change.entity_path for change in await watch_config_changes(store)] == ["topics/b"]

    run_on_store(scenario)


def test_consumer_offsets_by_group_and_partition(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await write_consumer_offset(store, "g", PARTITIONS[0], 42)
        await write_consumer_offset(store, "g", PARTITIONS[0], 43)
        assert await read_consumer_offsets(store, "g", PARTITIONS) == {PARTITIONS[0]: 43}
        assert (await store.get("/consumers/g/offsets/orders/0"))[0] == b"43"
        for group in ("", "..", "a//b"):
            with pytest.raises(BadPath):
                await write_consumer_offset(store, group, PARTITIONS[0], 1)
            with pytest.raises(BadPath):
                await read_consumer_offsets(store, group, PARTITIONS)

    run_on_store(scenario)


def test_concurrent_config_changes_are_both_written(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        stores = [ensemble.connect() for _ in range(3)]
        await asyncio.gather(*(change_config(s, "topics", "t", {"n": str(i)}) for i, s in enumerate(stores)))
        assert len(await watch_config_changes(stores[0])) == 3
        assert (await stores[0].get(znode_paths.config("topics", "t")))[1].version == 2

    run_on_store(scenario)


def test_notification_deleted_twice_is_counted_once(run_on_store, clock) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        stores = [ensemble.connect(), ensemble.connect()]
        for number in range(3):
            await change_config(stores[0], "topics", str(number), {})
        late_ms = clock.now_ms + CHANGE_KEPT_MS + 1
        counts = await asyncio.gather(*(delete_expired_config_changes(store, late_ms) for store in stores))
        assert sum(counts) == 3
        assert await watch_config_changes(stores[0]) == []

    run_on_store(scenario)


def test_reads_of_an_empty_store(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        assert await read_topics(store) == {}
        assert await watch_config_changes(store) == []

    run_on_store(scenario)
