"""Three of our brokers on one store: elections of the controller, failures, a former controller."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.broker.inter_broker.own_cluster import OwnCluster, run_cluster

from odradek.model.errors import ErrorCode, StorageError
from odradek.model.ids import TopicPartition
from odradek.store.controller_election import read_controller, read_controller_epoch
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import ControllerRegistration, encode_controller
from odradek.testing.broker import MemoryCluster
from odradek.testing.clock import run_virtually
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

DELETE_TOPICS = 20
ORDERS = TopicPartition("orders", 0)


async def controller_epoch(own: OwnCluster) -> int:
    epoch = await read_controller_epoch(own.store)
    assert epoch is not None
    return epoch[0]


# Election.


def test_brokers_that_start_together_elect_one_controller():
    async def scenario(own):
        started = [own.cluster.start(own._settings, broker_id=broker_id) for broker_id in (1, 2, 3)]
        own.brokers = {broker.broker.broker_id: broker for broker in await asyncio.gather(*started)}
        controller_id = await own.until_controller()
        registered = await read_controller(own.store)
        assert registered is not None
        assert registered.broker_id == controller_id
        assert await controller_epoch(own) == 1

    for seed in range(5):
        run_cluster(scenario, size=0, seed=seed)


def test_start_does_not_wait_for_a_controller_elsewhere():
    async def scenario(own):
        await own.cluster.hold_controller(9)
        await own.start(1)
        await asyncio.sleep(10)
        assert own.controllers() == {}
        assert await controller_epoch(own) == 1

    run_cluster(scenario, size=0)


def test_topic_is_replicated_and_written_to_all_replicas():
    async def scenario(own):
        await own.create_topic("orders", (1, 2, 3), (2, 3, 1), (3, 1, 2))
        for number, leader in enumerate((1, 2, 3)):
            partition = TopicPartition("orders", number)
            assert await own.produce(leader, partition, b"x") == ErrorCode.NONE
            state = await own.state(partition)
            assert (state.leader, state.leader_epoch, sorted(state.isr)) == (leader, 0, [1, 2, 3])

    run_cluster(scenario)


def test_killed_controller_is_replaced():
    async def scenario(own):
        await own.create_topic("orders", (1, 2, 3))
        await own.kill(1)
        await own.until_controller(after=1)
        await own.until_isr(ORDERS, 2, 3)
        await own.until_leader(ORDERS, 2)
        assert await own.produce(2, ORDERS, b"x") == ErrorCode.NONE
        await own.start(1)
        await own.until_isr(ORDERS, 1, 2, 3)
        assert (await own.state(ORDERS)).leader == 2

    run_cluster(scenario)


def test_killed_leader_is_replaced_and_comes_back_as_follower():
    async def scenario(own):
        await own.create_topic("orders", (3, 2, 1))
        assert await own.produce(3, ORDERS, b"x") == ErrorCode.NONE
        await own.kill(3)
        await own.until_leader(ORDERS, 2)
        state = await own.state(ORDERS)
        assert state.leader_epoch > 0
        assert set(state.isr) == {1, 2}
        assert own.controller_id == 1
        await own.start(3)
        await own.until_isr(ORDERS, 1, 2, 3)
        assert (await own.state(ORDERS)).leader == 2

    run_cluster(scenario)


def test_all_brokers_are_killed_and_come_back():
    async def scenario(own):
        await own.create_topic("orders", (1, 2, 3))
        assert await own.produce(1, ORDERS, b"x") == ErrorCode.NONE
        for broker_id in (1, 2, 3):
            await own.kill(broker_id)
        await own.start(1, 2, 3)
        await own.until_controller(after=1)
        await own.until_isr(ORDERS, 1, 2, 3)
        leader = (await own.state(ORDERS)).leader
        await own.until_leader(ORDERS, leader)
        assert await own.produce(leader, ORDERS, b"y") == ErrorCode.NONE

    run_cluster(scenario)


def test_controller_whose_session_expires_resigns_and_registers_again():
    async def scenario(own):
        await own.create_topic("orders", (1, 2, 3))
        before = own.controllers()[1]
        broker_epoch = own.membership(1).broker_epoch
        await own.brokers[1].expire_session()
        await own.until_controller(after=1)
        assert not before.is_active
        assert own.membership(1).broker_epoch > broker_epoch
        await own.until_isr(ORDERS, 1, 2, 3)
        leader = (await own.state(ORDERS)).leader
        await own.until_leader(ORDERS, leader)
        assert await own.produce(leader, ORDERS, b"x") == ErrorCode.NONE

    run_cluster(scenario)


def test_deleted_controller_node_forces_an_election():
    async def scenario(own):
        before = own.controllers()[1]
        await own.store.delete(znode_paths.CONTROLLER)
        await own.until_controller(after=1)
        assert not before.is_active
        assert await controller_epoch(own) == 2
        await own.create_topic("orders", (1, 2, 3))

    run_cluster(scenario)


def test_overwritten_controller_node_forces_an_election():
    async def scenario(own):
        before = own.controllers()[1]
        await own.store.set(znode_paths.CONTROLLER, encode_controller(ControllerRegistration(99, 0)))
        await own.until_controller(after=1)
        assert not before.is_active
        registered = await read_controller(own.store)
        assert registered is not None
        assert registered.broker_id == own.controller_id
        await own.create_topic("orders", (1, 2, 3))

    run_cluster(scenario)


def test_unreadable_controller_node_forces_an_election():
    async def scenario(own):
        await own.store.set(znode_paths.CONTROLLER, b"no json")
        await own.until_controller(after=1)

    run_cluster(scenario)


def test_controller_of_another_kind_is_obeyed_until_it_is_gone():
    async def scenario(own):
        await own.store.delete(znode_paths.CONTROLLER)
        other = own.cluster.ensemble.connect()
        # Ours may be faster; then there is nothing to see.
        if await own.store.exists(znode_paths.CONTROLLER) is None:
            await other.create(
                znode_paths.CONTROLLER, encode_controller(ControllerRegistration(77, 0)), ephemeral=True
            )
            await asyncio.sleep(5)
            assert own.controllers() == {}
            await other.close()
        await own.until_controller(after=1)

    run_cluster(scenario)


# A former controller.


def test_paused_controller_is_fenced_when_it_comes_back():
    async def scenario(own):
        await own.create_topic("orders", (2, 3, 1))
        paused = own.brokers[1]
        before = own.controllers()[1]
        # Requests wait in its queues, and an event in its queue, when it stops.
        await own.kill(3)
        paused.pause()
        await paused.expire_session()
        del own.brokers[1]
        await own.until_controller(after=1)
        await own.until_isr(ORDERS, 2)
        await own.start(3)
        own.brokers[1] = paused
        state = await own.state(ORDERS)
        paused.resume()
        await own.until_controller(after=1)
        assert not before.is_active
        await own.until_isr(ORDERS, 1, 2, 3)
        after = await own.state(ORDERS)
        assert after.leader_epoch >= state.leader_epoch
        assert after.controller_epoch >= 2
        managers = [broker.broker.replica_manager for broker in own.brokers.values()]
        assert {manager.state_changes.controller_epoch for manager in managers} == {
            await controller_epoch(own)
        }

    for seed in range(5):
        run_cluster(scenario, seed=seed)


def test_replies_of_a_resigning_controller_are_not_controller():
    async def scenario(own):
        # The topic cannot be written before the controller resigns; its client must ask the next one.
        client = await own.connect(1)
        request = DeleteTopicsRequest([DeleteTopicState("orders")], [], 5_000)
        await own.create_topic("orders", (1, 2, 3))
        await own.store.delete(znode_paths.CONTROLLER)
        response = await client.request(DELETE_TOPICS, 6, request)
        assert response.responses[0].error_code in (
            ErrorCode.NONE,
            ErrorCode.NOT_CONTROLLER,
            ErrorCode.REQUEST_TIMED_OUT,
        )
        await own.until_controller(after=1)

    run_cluster(scenario)


# Topics and shutdown.


def test_deletion_is_completed_by_the_next_controller():
    async def scenario(own):
        await own.create_topic("orders", (1, 2, 3), (2, 3, 1))
        await own.store.create(znode_paths.delete_topic("orders"))
        await own.kill(1)
        await own.until_controller(after=1)
        # It waits for the replicas on broker 1.
        await asyncio.sleep(5)
        assert await own.store.exists(znode_paths.delete_topic("orders")) is not None
        await own.start(1)
        await own.until_deleted("orders")
        assert all(len(broker.broker.replica_manager) == 0 for broker in own.brokers.values())

    run_cluster(scenario)


def test_deletion_without_a_broker_is_answered_once_the_topic_is_gone_from_metadata():
    """As in Kafka the response does not wait for the dead broker, only the name does."""

    async def scenario(own):
        dead = next(broker for broker in own.brokers if broker != own.controller_id)
        await own.create_topic("orders", (1, 2, 3), (2, 3, 1), (3, 1, 2))
        await own.kill(dead)
        await own.until_isr(ORDERS, *own.brokers)
        began_ms = own.clock.monotonic_ms()
        client = await own.connect(own.controller_id)
        request = DeleteTopicsRequest([DeleteTopicState("orders")], [], 60_000)
        response = await client.request(DELETE_TOPICS, 6, request)
        assert ErrorCode(response.responses[0].error_code) is ErrorCode.NONE
        assert own.clock.monotonic_ms() - began_ms < 10_000
        await own.start(dead)
        await own.until_deleted("orders")

    run_cluster(scenario)


def test_controlled_shutdown_moves_leaders_before_the_broker_stops():
    async def scenario(own):
        await own.create_topic("orders", (3, 2, 1), (2, 3, 1))
        await own.stop(3)
        state = await own.state(ORDERS)
        assert (state.leader, set(state.isr)) == (2, {1, 2})
        other = await own.state(TopicPartition("orders", 1))
        assert (other.leader, set(other.isr)) == (2, {1, 2})
        await own.start(3)
        await own.until_isr(ORDERS, 1, 2, 3)

    run_cluster(scenario)


def test_controller_shuts_itself_down():
    async def scenario(own):
        await own.create_topic("orders", (1, 2, 3))
        await own.stop(1)
        await own.until_controller(after=1)
        state = await own.state(ORDERS)
        assert (state.leader, set(state.isr)) == (2, {2, 3})
        assert await own.produce(2, ORDERS, b"x") == ErrorCode.NONE

    run_cluster(scenario)


def test_rolling_restart_keeps_partitions_available():
    async def scenario(own):
        await own.create_topic("orders", (1, 2, 3), (2, 3, 1), (3, 1, 2))
        for broker_id in (1, 2, 3):
            await own.stop(broker_id)
            await own.until_controller()
            for number in range(3):
                partition = TopicPartition("orders", number)
                leader = (await own.state(partition)).leader
                await own.until_leader(partition, leader)
                assert await own.produce(leader, partition, b"x") == ErrorCode.NONE
            await own.start(broker_id)
            await own.until_controller()
            for number in range(3):
                await own.until_isr(TopicPartition("orders", number), 1, 2, 3)

    run_cluster(scenario)


def test_unreachable_broker_does_not_hold_up_the_others():
    async def scenario(own):
        for host in ("broker-1", "broker-2"):
            own.cluster.network.partition("broker-3", host)
        topic = "orders"
        brokers = own.brokers
        own.brokers = {broker_id: brokers[broker_id] for broker_id in (1, 2)}
        await own.create_topic(topic, (1, 2))
        assert await own.produce(1, ORDERS, b"x") == ErrorCode.NONE
        own.brokers = brokers
        own.cluster.network.heal()
        await own.until_controller()
        await own.until(lambda: brokers[3].broker.metadata_cache.topic(topic) is not None)

    run_cluster(scenario)


# Clusters apart.


def test_data_of_another_cluster_refuses_to_start():
    async def main():
        first, second = MemoryCluster(), MemoryCluster(seed=1)
        broker = await first.start(broker_id=1)
        await broker.stop()
        other = await second.start(broker_id=2)
        second._files["broker-1"] = first.files_of("broker-1")
        with pytest.raises(StorageError, match="the data belongs to cluster") as refusal:
            await second.start(broker_id=1)
        assert broker.broker.cluster_id in str(refusal.value)
        assert other.broker.cluster_id in str(refusal.value)
        await other.stop()
        await first.close()
        await second.close()

    run_virtually(main)
