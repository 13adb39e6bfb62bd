"""Membership: registration, controller role, and the expiry of a store session."""

from __future__ import annotations

import asyncio

import pytest

from odradek.broker.membership import REELECTION_WAIT_MS
from odradek.model.errors import ConfigError, ErrorCode
from odradek.store.broker_registration import BrokerIdTaken, read_brokers
from odradek.store.configs import change_config
from odradek.store.controller_election import read_controller, read_controller_epoch
from odradek.store.features import read_features
from odradek.store.layout import znode_paths
from odradek.store.port import StoreError, Unavailable
from odradek.testing.broker import MemoryBroker, MemoryCluster, running_broker
from odradek.testing.clock import run_virtually
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

API_VERSIONS, CREATE_TOPICS = 18, 19
SETTLE_S = 5


def run_cluster(scenario):
    async def main():
        cluster = MemoryCluster()
        try:
            await scenario(cluster)
        finally:
            await cluster.close()

    run_virtually(main)


def run_embedded(scenario):
    async def main():
        async with running_broker() as (cluster, broker):
            await scenario(cluster, broker)

    run_virtually(main)


async def create_topic(broker: MemoryBroker, name: str) -> ErrorCode:
    client = await broker.connect()
    response = await client.request(CREATE_TOPICS, 7, CreateTopicsRequest([CreatableTopic(name, 1, 1)]))
    client.close()
    return ErrorCode(response.topics[0].error_code)


async def controller_epoch(store) -> int:
    epoch = await read_controller_epoch(store)
    assert epoch is not None
    return epoch[0]


async def features_epoch(broker: MemoryBroker) -> int:
    client = await broker.connect()
    response = await client.request(API_VERSIONS, 4, ApiVersionsRequest("odradek-test", "1.0"))
    client.close()
    return response.finalized_features_epoch


# Registration.


def test_brokers_share_a_store_and_register_under_their_own_epochs():
    async def scenario(cluster):
        first = await cluster.start(broker_id=1)
        second = await cluster.start({"broker.rack": "b"}, broker_id=2)
        brokers = await read_brokers(cluster.ensemble.connect())
        assert list(brokers) == [1, 2]
        epochs = [memory_broker.broker._membership.broker_epoch for memory_broker in (first, second)]
        assert epochs == [brokers[1].broker_epoch, brokers[2].broker_epoch]
        assert epochs[0] < epochs[1]
        assert brokers[2].registration.rack == "b"
        assert brokers[1].registration.endpoints[0].host == "broker-1"
        assert first.broker.cluster_id == second.broker.cluster_id
        await first.stop()
        assert list(await read_brokers(cluster.ensemble.connect())) == [2]
        await second.stop()

    run_cluster(scenario)


def test_second_broker_with_the_same_id_is_refused_in_one_line():
    async def scenario(cluster):
        first = await cluster.start(broker_id=1)
        with pytest.raises(BrokerIdTaken, match=r"broker\.id=1") as refusal:
            await cluster.start(broker_id=1, host="elsewhere")
        assert "\n" not in str(refusal.value)
        assert list(await read_brokers(cluster.ensemble.connect())) == [1]
        await first.stop()

    run_cluster(scenario)


def test_restart_before_the_old_session_expired_is_refused():
    async def scenario(cluster):
        first = await cluster.start(broker_id=1)
        await first.kill(expires_session=False)
        with pytest.raises(BrokerIdTaken, match="restarted before its old session expired"):
            await cluster.start(broker_id=1)
        await first.expire_session()
        second = await cluster.start(broker_id=1)
        await second.stop()

    run_cluster(scenario)


def test_endpoint_of_another_broker_is_refused():
    async def scenario(cluster):
        first = await cluster.start(broker_id=1)
        with pytest.raises(ConfigError, match=r"broker-1:9092 is already registered by broker 1"):
            await cluster.start({"advertised.listeners": "PLAINTEXT://broker-1:9092"}, broker_id=2)
        await first.stop()

    run_cluster(scenario)


def test_generated_broker_ids_differ():
    async def scenario(cluster):
        brokers = [await cluster.start({"broker.id": "-1"}, broker_id=-1, host=host) for host in ("a", "b")]
        assert [memory_broker.broker.broker_id for memory_broker in brokers] == [1001, 1002]
        for memory_broker in brokers:
            await memory_broker.stop()

    run_cluster(scenario)


def test_old_inter_broker_protocol_is_refused():
    async def scenario(cluster):
        with pytest.raises(ConfigError, match=r"inter\.broker\.protocol\.version: must be between 2\.8-IV0"):
            await cluster.start({"inter.broker.protocol.version": "2.7"}, broker_id=1)

    run_cluster(scenario)


# The controller role.


def test_broker_on_a_shared_store_becomes_controller_if_there_is_none():
    async def scenario(cluster):
        broker = await cluster.start(broker_id=1)
        await asyncio.sleep(SETTLE_S)
        assert broker.broker._membership.is_controller
        registered = await read_controller(cluster.ensemble.connect())
        assert registered is not None
        assert registered.broker_id == 1
        assert await create_topic(broker, "orders") == ErrorCode.NONE
        await broker.stop()

    run_cluster(scenario)


def test_broker_does_not_become_controller_beside_another():
    async def scenario(cluster):
        await cluster.hold_controller(9)
        broker = await cluster.start(broker_id=1)
        await asyncio.sleep(SETTLE_S)
        assert not broker.broker._membership.is_controller
        assert await create_topic(broker, "orders") == ErrorCode.NOT_CONTROLLER
        await broker.stop()

    run_cluster(scenario)


def test_election_whose_response_was_lost_is_recognised():
    async def scenario(cluster):
        broker = await cluster.start(broker_id=1)
        await asyncio.sleep(SETTLE_S)
        membership = broker.broker._membership
        store = membership.store
        multi = store.multi
        lost: list[object] = []

        async def lose_response(ops):
            results = await multi(ops)
            if any(op.path == znode_paths.CONTROLLER for op in ops) and not lost:
                lost.append(ops)
                raise Unavailable(znode_paths.CONTROLLER, "the connection broke before the response")
            return results

        store.multi = lose_response
        await cluster.ensemble.connect().delete(znode_paths.CONTROLLER)
        await asyncio.sleep(SETTLE_S)
        assert len(lost) == 1
        assert membership.controller.controller_epoch == 2
        assert await controller_epoch(store) == 2
        await broker.stop()

    run_cluster(scenario)


def test_controller_that_fails_while_it_loads_is_replaced_after_a_while():
    async def scenario(cluster):
        await cluster.hold_controller(9)
        broker = await cluster.start(broker_id=1)
        await asyncio.sleep(SETTLE_S)
        store = broker.broker._membership.store
        watch_children = store.watch_children
        failures: list[int] = []

        async def fail(path, watcher):
            if path == znode_paths.TOPICS and len(failures) < 2:
                failures.append(cluster.clock.monotonic_ms())
                raise StoreError(path, "cannot be read")
            return await watch_children(path, watcher)

        store.watch_children = fail
        await cluster.ensemble.connect().delete(znode_paths.CONTROLLER)
        await asyncio.sleep(60)
        assert failures[1] - failures[0] >= REELECTION_WAIT_MS
        assert broker.broker._membership.is_controller
        assert await create_topic(broker, "orders") == ErrorCode.NONE
        await broker.stop()

    run_cluster(scenario)


def test_embedded_store_enables_features_and_their_epoch_is_the_node_version():
    async def scenario(cluster, broker):
        store = cluster.ensemble.connect()
        assert (await store.get(znode_paths.FEATURE))[0] == b'{"features":{},"version":2,"status":1}'
        assert await features_epoch(broker) == 0
        await store.set(znode_paths.FEATURE, b'{"features":{},"version":2,"status":1}')
        await asyncio.sleep(1)
        assert await features_epoch(broker) == 1
        await store.set(znode_paths.FEATURE, b'{"features":{},"version":2,"status":0}')
        await asyncio.sleep(1)
        assert await features_epoch(broker) == -1

    run_embedded(scenario)


def test_features_are_unknown_without_their_node():
    async def scenario(cluster):
        await cluster.hold_controller(9)
        broker = await cluster.start(broker_id=1)
        assert await read_features(cluster.ensemble.connect()) is None
        assert await features_epoch(broker) == -1
        await broker.stop()

    run_cluster(scenario)


# Expiry.


def test_expired_broker_registers_again_under_a_new_epoch():
    async def scenario(cluster):
        broker = await cluster.start(broker_id=1)
        membership = broker.broker._membership
        before, session_before = membership.broker_epoch, membership.store.session_id
        await broker.expire_session()
        await asyncio.sleep(SETTLE_S)
        assert membership.broker_epoch > before
        assert membership.store.session_id != session_before
        brokers = await read_brokers(cluster.ensemble.connect())
        assert brokers[1].broker_epoch == membership.broker_epoch
        await broker.stop()

    run_cluster(scenario)


def test_expired_controller_resigns_and_is_elected_again():
    async def scenario(cluster, broker):
        assert await create_topic(broker, "orders") == ErrorCode.NONE
        membership = broker.broker._membership
        controller = membership.controller
        states = []
        membership.store.on_expired(lambda: states.append((membership.controller, controller._is_active)))
        store = cluster.ensemble.connect()
        epoch_before = await controller_epoch(store)
        await broker.expire_session()
        await asyncio.sleep(SETTLE_S)
        assert states == [(None, False)], "the controller has resigned when other expiry callbacks run"
        assert membership.controller is not controller
        assert membership.is_controller
        assert await controller_epoch(store) == epoch_before + 1
        assert await create_topic(broker, "later") == ErrorCode.NONE

    run_embedded(scenario)


def test_configs_changed_while_the_session_was_gone_are_applied():
    async def scenario(cluster):
        broker = await cluster.start(broker_id=1)
        store = cluster.ensemble.connect()
        await change_config(store, "topics", "orders", {"retention.ms": "1"})
        await asyncio.sleep(1)
        ensemble, opened = broker._session, broker._session.open_session

        async def refuse():
            raise Unavailable("zookeeper:2181", "connection refused")

        ensemble.open_session = refuse
        await broker.expire_session()
        await asyncio.sleep(SETTLE_S)
        await change_config(store, "topics", "orders", {"retention.ms": "2"})
        await change_config(store, "brokers", "<default>", {"log.retention.ms": "3"})
        await change_config(store, "brokers", "1", {"log.segment.bytes": "4000"})
        ensemble.open_session = opened
        await asyncio.sleep(60)
        assert broker.broker._admin_manager.topic_overrides("orders") == {"retention.ms": "2"}
        assert broker.broker.config.cluster_overrides == {"log.retention.ms": "3"}
        assert broker.broker.config.broker_overrides == {"log.segment.bytes": "4000"}
        # The watch is set again.
        await change_config(store, "topics", "orders", {})
        await asyncio.sleep(1)
        assert broker.broker._admin_manager.topic_overrides("orders") == {}
        await broker.stop()

    run_cluster(scenario)


def test_session_that_expires_again_while_rejoining_is_replaced():
    async def scenario(cluster):
        broker = await cluster.start(broker_id=1)
        membership = broker.broker._membership
        for _ in range(3):
            await broker.expire_session()
            await asyncio.sleep(0.001)
        await asyncio.sleep(SETTLE_S)
        brokers = await read_brokers(cluster.ensemble.connect())
        assert brokers[1].broker_epoch == membership.broker_epoch
        await broker.stop()

    run_cluster(scenario)


@pytest.mark.sources
def test_failed_controller_is_replaced_by_one_that_reads_all_state():
    async def scenario(cluster, broker):
        membership = broker.broker._membership
        controller = membership.controller
        channel = broker.broker._replica_manager.become_leader_or_follower

        async def crash(*arguments):
            raise ZeroDivisionError

        broker.broker._replica_manager.become_leader_or_follower = crash
        assert await create_topic(broker, "orders") == ErrorCode.REQUEST_TIMED_OUT
        broker.broker._replica_manager.become_leader_or_follower = channel
        await asyncio.sleep(60)
        assert membership.controller not in (None, controller)
        assert broker.broker.metadata_cache.topic("orders").has_all_leaders
        assert await create_topic(broker, "later") == ErrorCode.NONE

    run_embedded(scenario)


def test_stop_ends_attempts_to_rejoin():
    async def scenario(cluster):
        broker = await cluster.start(broker_id=1)

        async def refuse():
            raise Unavailable("zookeeper:2181", "connection refused")

        opened, broker._session.open_session = broker._session.open_session, refuse
        await broker.expire_session()
        await asyncio.sleep(SETTLE_S)
        await broker._process.run(broker.broker.stop())
        broker._session.open_session = opened
        await asyncio.sleep(60)
        assert list(await read_brokers(cluster.ensemble.connect())) == []

    run_cluster(scenario)
