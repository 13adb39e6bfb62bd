"""ACLs in the store: conditional writes with notifications, reads, and what cannot be decoded."""

from __future__ import annotations

import asyncio

import pytest

from odradek.model.acl_enums import AclResourceType, PatternType
from odradek.model.acl_operations import AclOperation
from odradek.security.acls.bindings import AccessControlEntry, ResourcePattern
from odradek.store import acls
from odradek.store.acls import (
    DENIES_ALL,
    NO_ACLS,
    AclChange,
    Entries,
    VersionedAcls,
    delete_expired_acl_changes,
    ensure_acl_paths,
    read_acls,
    read_acls_or_deny,
    read_all_acls,
    update_acls,
    watch_acl_changes,
)
from odradek.store.embedded.ensemble import EmbeddedEnsemble
from odradek.store.layout import acl_znodes
from odradek.store.port import BadPath, BadPayload, NoNode, Store, StoreError, WatchedEvent, WatchedEventType

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ORDERS = ResourcePattern(AclResourceType.TOPIC, "orders")
PREFIX = ResourcePattern(AclResourceType.GROUP, "app-", PREFIXED)
ALICE = AccessControlEntry("User:alice", AclOperation.READ)
BOB = AccessControlEntry("User:bob", AclOperation.READ)


def adding(*entries: AccessControlEntry):
    return lambda current: current | set(entries)


def nothing(entries: Entries) -> Entries:
    return frozenset()


async def changed_patterns(store: Store) -> list[ResourcePattern | None]:
    changes = [*await watch_acl_changes(store, LITERAL), *await watch_acl_changes(store, PREFIXED)]
    return [change.pattern for change in changes]


def test_change_and_notification_are_one_write(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await ensure_acl_paths(store)
        zxid = ensemble.tree.zxid
        assert await update_acls(store, ORDERS, adding(ALICE)) == VersionedAcls(frozenset({ALICE}), 0)
        assert ensemble.tree.zxid == zxid + 1
        assert await changed_patterns(store) == [ORDERS]
        current = await update_acls(store, ORDERS, adding(BOB))
        assert current == VersionedAcls(frozenset({ALICE, BOB}), 1) == await read_acls(store, ORDERS)
        await update_acls(store, PREFIX, adding(BOB))
        assert await changed_patterns(store) == [ORDERS, ORDERS, PREFIX]
        assert await read_all_acls(store) == {
            ORDERS: current,
            PREFIX: VersionedAcls(frozenset({BOB}), 0),
        }

    run_on_store(scenario)


def test_node_of_a_pattern_without_entries_is_deleted(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await ensure_acl_paths(store)
        current = await update_acls(store, ORDERS, adding(ALICE))
        assert await update_acls(store, ORDERS, nothing, current) == NO_ACLS
        with pytest.raises(NoNode):
            await store.get(acl_znodes.path_of(ORDERS))
        assert await changed_patterns(store) == [ORDERS, ORDERS]
        assert await read_all_acls(store) == {}
        assert await update_acls(store, ORDERS, nothing) == NO_ACLS
        assert len(await changed_patterns(store)) == 2

    run_on_store(scenario)


def test_unchanged_entries_notify_nobody(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await ensure_acl_paths(store)
        await update_acls(store, ORDERS, adding(ALICE))
        await update_acls(store, ORDERS, adding(ALICE))
        assert len(await changed_patterns(store)) == 1

    run_on_store(scenario)


@pytest.mark.parametrize("expected", [None, NO_ACLS, VersionedAcls(frozenset({BOB}), 7)])
def test_outdated_knowledge_loses_no_entry(run_on_store, expected: VersionedAcls | None) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await ensure_acl_paths(store)
        await update_acls(store, ORDERS, adding(ALICE))
        current = await update_acls(store, ORDERS, adding(BOB), expected)
        assert current.entries == {ALICE, BOB}

    run_on_store(scenario)


def test_believed_entry_that_is_gone_is_written_again(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await ensure_acl_paths(store)
        believed = await update_acls(store, ORDERS, adding(ALICE))
        await update_acls(store, ORDERS, nothing)
        assert (await update_acls(store, ORDERS, adding(ALICE), believed)).entries == {ALICE}
        assert (await read_acls(store, ORDERS)).entries == {ALICE}
        # And the other way round: believed to be absent, and removed.
        assert await update_acls(store, ORDERS, nothing, NO_ACLS) == NO_ACLS
        assert await read_acls(store, ORDERS) == NO_ACLS

    run_on_store(scenario)


def test_concurrent_changes_are_all_made(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        stores = [ensemble.connect() for _ in range(4)]
        await ensure_acl_paths(stores[0])
        entries = [AccessControlEntry(f"User:u{number}", AclOperation.READ) for number in range(8)]
        await asyncio.gather(
            *(
                update_acls(stores[number % 4], ORDERS, adding(entry), NO_ACLS)
                for number, entry in enumerate(entries)
            )
        )
        assert (await read_acls(stores[0], ORDERS)).entries == set(entries)

    run_on_store(scenario)


def test_conflict_in_each_attempt_is_an_error(run_on_store, monkeypatch) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store, other = ensemble.connect(), ensemble.connect()
        await ensure_acl_paths(store)
        read = acls.read_acls

        async def read_outdated(store_: Store, pattern: ResourcePattern) -> VersionedAcls:
            current = await read(store_, pattern)
            await other.set(acl_znodes.path_of(pattern), acl_znodes.encode_acls([BOB]))
            return current

        await update_acls(store, ORDERS, adding(BOB))
        monkeypatch.setattr(acls, "read_acls", read_outdated)
        with pytest.raises(StoreError, match="write conflict in each of 10 attempts"):
            await update_acls(store, ORDERS, adding(ALICE))

    run_on_store(scenario)


def test_name_that_is_no_path_is_an_error(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await ensure_acl_paths(store)
        for name in (".", "..", "a\0", "\ud800"):
            with pytest.raises(BadPath):
                await update_acls(store, ORDERS._replace(name=name), adding(ALICE))

    run_on_store(scenario)


def test_node_that_cannot_be_decoded_denies_everything(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await ensure_acl_paths(store)
        await update_acls(store, PREFIX, adding(ALICE))
        await store.create(acl_znodes.path_of(ORDERS), b"?")
        await store.create("/kafka-acl/Novel")
        await store.create("/kafka-acl/Novel/x", b"?")
        expected = VersionedAcls(frozenset({ALICE}), 0)
        assert await read_all_acls(store) == {ORDERS: DENIES_ALL, PREFIX: expected}
        assert await read_acls_or_deny(store, ORDERS) == DENIES_ALL
        assert await read_acls_or_deny(store, PREFIX) == expected
        assert await read_acls_or_deny(store, ORDERS._replace(name="nowhere")) == NO_ACLS
        with pytest.raises(BadPayload):
            await update_acls(store, ORDERS, adding(ALICE))
        assert (await store.get(acl_znodes.path_of(ORDERS)))[0] == b"?", "it is not overwritten"

    run_on_store(scenario)


def test_watch_fires_on_the_next_notification(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await ensure_acl_paths(store)
        seen: asyncio.Queue[WatchedEvent] = asyncio.Queue()
        assert await watch_acl_changes(store, LITERAL, seen.put_nowait) == []
        await update_acls(store, PREFIX, adding(ALICE))
        await update_acls(store, ORDERS, adding(ALICE))
        event = await asyncio.wait_for(seen.get(), 5)
        assert event == WatchedEvent(WatchedEventType.CHILDREN, "/kafka-acl-changes")
        await store.create("/kafka-acl-changes/acl_changes_", b"?", sequence=True)
        await store.create("/kafka-acl-changes/other", b"")
        changes = await watch_acl_changes(store, LITERAL)
        assert changes == [
            AclChange("acl_changes_0000000000", ORDERS),
            AclChange("acl_changes_0000000001", None),
        ]

    run_on_store(scenario)


def test_expired_notifications_are_deleted(run_on_store, clock) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        assert await delete_expired_acl_changes(store, clock.now_ms) == 0, "no node yet"
        assert await watch_acl_changes(store, LITERAL) == []
        await ensure_acl_paths(store)
        await update_acls(store, ORDERS, adding(ALICE))
        await update_acls(store, PREFIX, adding(ALICE))
        clock.now_ms += acls.CHANGE_KEPT_MS
        await update_acls(store, ORDERS, adding(BOB))
        assert await delete_expired_acl_changes(store, clock.now_ms) == 0
        assert await delete_expired_acl_changes(store, clock.now_ms + 1) == 2
        assert await changed_patterns(store) == [ORDERS]

    run_on_store(scenario)
