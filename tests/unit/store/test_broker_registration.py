"""Cluster id, broker id, broker registration."""

from __future__ import annotations

import asyncio

import pytest

from odradek.model.errors import ConfigError, StorageError
from odradek.model.uuids import parse_uuid
from odradek.store.broker_registration import (
    BrokerIdRules,
    BrokerIdTaken,
    RegisteredBroker,
    check_endpoints,
    create_or_get_cluster_id,
    create_top_level_paths,
    decide_broker_id,
    read_brokers,
    register_broker,
    resolve_broker_id,
    update_registration,
)
from odradek.store.embedded.ensemble import EmbeddedEnsemble
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import BrokerRegistration, RegisteredEndpoint
from odradek.store.meta_properties import MetaProperties
from odradek.store.port import SessionExpired, Stat
from odradek.testing.linked_store import LinkedStore

REGISTRATION = BrokerRegistration((RegisteredEndpoint("PLAINTEXT", "PLAINTEXT", "h", 9092),), 5)
UPDATED_REGISTRATION = BrokerRegistration((RegisteredEndpoint("PLAINTEXT", "PLAINTEXT", "h2", 9092),), 6)


class CountingEntropy:
    def __init__(self) -> None:
        self._drawn = 0

    def token(self, size_bytes: int) -> bytes:
        return bytes(size_bytes)

    def below(self, limit: int) -> int:
        return 0

    def uuid(self) -> bytes:
        self._drawn += 1
        return (self._drawn << 64).to_bytes(16, "big")


def files(*broker_ids: int | None) -> dict[str, MetaProperties]:
    return {f"/d{i}/meta.properties": MetaProperties(b, "c") for i, b in enumerate(broker_ids)}


@pytest.mark.parametrize(
    ("rules", "meta_properties", "expected"),
    [
        (BrokerIdRules(3), files(), 3),
        (BrokerIdRules(3), files(3, 3), 3),
        (BrokerIdRules(3), files(None), 3),
        (BrokerIdRules(0), files(), 0),
        (BrokerIdRules(1000), files(), 1000),
        (BrokerIdRules(-1), files(7), 7),
        (BrokerIdRules(-1), files(1001, None), 1001),
        (BrokerIdRules(-1), files(), None),
        (BrokerIdRules(5000, generation_enabled=False), files(), 5000),
        (BrokerIdRules(20, reserved_max=20), files(), 20),
    ],
)
def test_broker_id_is_configured_or_stored(rules, meta_properties, expected) -> None:
    assert decide_broker_id(rules, meta_properties) == expected


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (BrokerIdRules(1001), "reserved.broker.max.id"),
        (BrokerIdRules(21, reserved_max=20), "reserved.broker.max.id"),
        (BrokerIdRules(-2), "between -1"),
        (BrokerIdRules(-1, generation_enabled=False), ">= 0"),
    ],
)
def test_broker_id_outside_allowed_range_is_rejected(rules, message) -> None:
    with pytest.raises(ConfigError, match=message):
        decide_broker_id(rules, {})


def test_configured_broker_id_must_match_stored_id() -> None:
    with pytest.raises(ConfigError, match=r"got 3.*/d0/meta.properties has broker.id=4.*set broker.id=4"):
        decide_broker_id(BrokerIdRules(3), files(4))


def test_directories_of_two_brokers_are_rejected() -> None:
    with pytest.raises(StorageError, match=r"broker\.id"):
        decide_broker_id(BrokerIdRules(-1), files(1, 2))


def test_generated_broker_ids_are_unique_and_above_reserved_ids(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        broker_ids = [await resolve_broker_id(store, BrokerIdRules(-1), {}) for _ in range(3)]
        assert broker_ids == [1001, 1002, 1003]
        assert await resolve_broker_id(store, BrokerIdRules(5), {}) == 5
        assert (await store.get(znode_paths.BROKER_SEQUENCE_ID))[1].version == 3

    run_on_store(scenario)


def test_top_level_paths_are_created_once(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await create_top_level_paths(store)
        zxid = ensemble.tree.zxid
        await create_top_level_paths(store)
        assert ensemble.tree.zxid == zxid
        assert all(await store.get_many(znode_paths.PERSISTENT))

    run_on_store(scenario)


def test_brokers_that_start_together_agree_on_the_cluster_id(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        entropy = CountingEntropy()
        stores = [ensemble.connect() for _ in range(3)]
        ids = await asyncio.gather(*(create_or_get_cluster_id(store, entropy) for store in stores))
        assert len(set(ids)) == 1
        assert len(parse_uuid(ids[0])) == 16
        assert (await stores[0].get(znode_paths.CLUSTER_ID))[0] == b'{"version":"1","id":"%s"}' % ids[
            0
        ].encode()

    run_on_store(scenario)


def test_registered_broker_is_visible_until_its_session_ends(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        first, second = ensemble.connect(), ensemble.connect()
        await create_top_level_paths(first)
        epoch = await register_broker(first, 1, REGISTRATION)
        await update_registration(first, 1, UPDATED_REGISTRATION)
        assert await read_brokers(second) == {1: RegisteredBroker(1, epoch, UPDATED_REGISTRATION)}
        assert epoch == (await second.get(znode_paths.broker(1)))[1].czxid
        await first.close()
        assert await read_brokers(second) == {}
        assert await register_broker(second, 1, REGISTRATION) > epoch

    run_on_store(scenario)


def test_registering_again_in_the_same_session_keeps_the_epoch(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await create_top_level_paths(store)
        assert await register_broker(store, 1, REGISTRATION) == await register_broker(store, 1, REGISTRATION)

    run_on_store(scenario)


def test_broker_id_of_another_session_is_rejected(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        first, second = ensemble.connect(), ensemble.connect()
        await create_top_level_paths(first)
        await register_broker(first, 1, REGISTRATION)
        with pytest.raises(BrokerIdTaken, match=r"broker.id=1.*zookeeper.session.timeout.ms"):
            await register_broker(second, 1, REGISTRATION)

    run_on_store(scenario)


def test_node_of_the_own_expired_session_is_replaced(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        old, new = ensemble.connect(), ensemble.connect()
        await old.ensure_path(znode_paths.BROKER_IDS)
        epoch = await register_broker(old, 1, REGISTRATION)
        # ZooKeeper may keep the node of an expired session for a while (ZOOKEEPER-2985).
        assert await register_broker(new, 1, REGISTRATION, [5, old.session_id]) > epoch
        stat = await new.exists(znode_paths.broker(1))
        assert stat is not None
        assert stat.ephemeral_owner == new.session_id

    run_on_store(scenario)


def test_node_that_vanishes_meanwhile_is_created_again(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        old, new = ensemble.connect(), ensemble.connect()
        await old.ensure_path(znode_paths.BROKER_IDS)
        await register_broker(old, 1, REGISTRATION)
        exists = new.exists

        async def end_session_first(path: str) -> Stat | None:
            await old.close()
            return await exists(path)

        new.exists = end_session_first  # type: ignore[method-assign]
        await register_broker(new, 1, REGISTRATION)
        assert list(await read_brokers(new)) == [1]

    run_on_store(scenario)


def test_registration_without_a_response_is_found(run_on_store) -> None:
    """The node exists, but its czxid was never received; meanwhile the endpoints have changed."""

    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = LinkedStore(ensemble, session_timeout_s=5)
        await create_top_level_paths(store)
        store.hold_responses()
        lost = asyncio.ensure_future(register_broker(store, 1, REGISTRATION))
        await store.held.wait()
        store.disconnect()
        store.reconnect()
        epoch = await lost
        _, stat = await store.get(znode_paths.broker(1))
        assert (epoch, stat.ephemeral_owner) == (stat.czxid, store.session_id)
        assert await register_broker(store, 1, UPDATED_REGISTRATION) == epoch
        assert (await read_brokers(store))[1] == RegisteredBroker(1, epoch, UPDATED_REGISTRATION)

    run_on_store(scenario)


def test_request_that_did_not_arrive_is_repeated(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = LinkedStore(ensemble, session_timeout_s=5)
        await create_top_level_paths(store)
        store.hold_requests()
        lost = asyncio.ensure_future(register_broker(store, 1, REGISTRATION))
        await store.held.wait()
        store.disconnect()
        store.reconnect()
        epoch = await lost
        assert await read_brokers(store) == {1: RegisteredBroker(1, epoch, REGISTRATION)}

    run_on_store(scenario)


def test_epoch_is_never_that_of_a_node_of_another_session(run_on_store) -> None:
    """The session ends after the node was created, and another broker takes the id."""

    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = LinkedStore(ensemble, session_timeout_s=5)
        await create_top_level_paths(store)
        store.hold_responses()
        lost = asyncio.ensure_future(register_broker(store, 1, REGISTRATION))
        await store.held.wait()
        store.disconnect()
        await ensemble.expire(store.session_id)
        other = ensemble.connect()
        await register_broker(other, 1, UPDATED_REGISTRATION)
        store.reconnect()
        with pytest.raises(SessionExpired):
            await lost

    run_on_store(scenario)


def test_endpoints_of_other_brokers_are_rejected() -> None:
    check_endpoints(REGISTRATION, 1, {1: RegisteredBroker(1, 5, REGISTRATION)})
    check_endpoints(REGISTRATION, 1, {2: RegisteredBroker(2, 5, UPDATED_REGISTRATION)})
    with pytest.raises(ConfigError, match="h:9092 is already registered by broker 2"):
        check_endpoints(REGISTRATION, 1, {2: RegisteredBroker(2, 5, REGISTRATION)})


def test_no_brokers_in_an_empty_store(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        assert await read_brokers(ensemble.connect()) == {}

    run_on_store(scenario)
