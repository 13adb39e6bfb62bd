"""Elections, reassignments and ISR changes on three of our brokers, by request, node, setting and timer."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.broker.inter_broker.own_cluster import OwnCluster, run_cluster

from odradek.log.directory.directory_lock import unusable_directory
from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_LEADER, TopicPartition
from odradek.store.configs import change_config
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import ReplicaAssignment, encode_partitions, encode_reassignment
from odradek.store.topics import read_topics
from odradek.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest

ELECT, REASSIGN, LIST = 43, 45, 46
PREFERRED, UNCLEAN = 0, 1
ORDERS = TopicPartition("orders", 0)


async def elect(own: OwnCluster, kind: int, *numbers: int, version: int = 2) -> dict[int, ErrorCode]:
    """Elect leaders of ``orders``, or of all partitions; return the error codes."""
    topics = [TopicPartitions("orders", list(numbers))] if numbers else None
    response = await own.request(own.controller_id, ELECT, version, ElectLeadersRequest(kind, topics, 30_000))
    assert response.error_code == 0
    return {
        part.partition_id: ErrorCode(part.error_code)
        for topic in response.replica_election_results
        for part in topic.partition_result
    }


async def reassign(own: OwnCluster, number: int, replicas: list[int] | None) -> ErrorCode:
    topic = ReassignableTopic("orders", [ReassignablePartition(number, replicas)])
    response = await own.request(
        own.controller_id, REASSIGN, 0, AlterPartitionReassignmentsRequest(30_000, [topic])
    )
    assert response.error_code == 0
    return ErrorCode(response.responses[0].partitions[0].error_code)


async def ongoing(own: OwnCluster) -> dict[int, tuple[list[int], list[int], list[int]]]:
    response = await own.request(own.controller_id, LIST, 0, ListPartitionReassignmentsRequest(30_000, None))
    assert response.error_code == 0
    return {
        part.partition_index: (part.replicas, part.adding_replicas, part.removing_replicas)
        for topic in response.topics
        for part in topic.partitions
    }


async def assigned(own: OwnCluster, number: int = 0) -> ReplicaAssignment:
    return (await read_topics(own.store))["orders"].assignment.partitions[number]


async def until_assigned(own: OwnCluster, replicas: tuple[int, ...]) -> None:
    for _ in range(6_000):
        if await assigned(own) == ReplicaAssignment(replicas):
            return
        await own.clock.sleep_ms(20)
    raise AssertionError(f"the assignment is {await assigned(own)}")


async def bounce(own: OwnCluster, broker_id: int) -> None:
    """Kill a broker and start it again, until it follows."""
    await own.kill(broker_id)
    await own.start(broker_id)
    await own.until_isr(ORDERS, 1, 2, 3)


# Preferred leaders.


@pytest.mark.parametrize("version", range(3))
def test_preferred_leader_is_elected_by_request(version):
    async def scenario(own):
        await own.create_topic("orders", (3, 2, 1), (2, 1, 3))
        await bounce(own, 3)
        assert (await own.state(ORDERS)).leader == 2
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        codes = await elect(own, PREFERRED, 0, 1, 5, version=version)
        assert codes == {0: ErrorCode.NONE, 1: ErrorCode.ELECTION_NOT_NEEDED, 5: missing}
        # The response has waited for the metadata of the controller's broker.
        assert own.brokers[own.controller_id].broker.metadata_cache.partition(*ORDERS).leader == 3
        await own.until_leader(ORDERS, 3)
        assert await own.produce(3, ORDERS, b"x") == ErrorCode.NONE

    run_cluster(scenario)


def test_preferred_leader_that_is_down_is_not_available():
    async def scenario(own):
        await own.create_topic("orders", (3, 2, 1))
        await own.kill(3)
        await own.until_leader(ORDERS, 2)
        assert await elect(own, PREFERRED, 0) == {0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
        assert await elect(own, PREFERRED) == {0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}

    run_cluster(scenario)


def test_preferred_leader_is_elected_by_node():
    async def scenario(own):
        await own.create_topic("orders", (3, 2, 1))
        await bounce(own, 3)
        path = znode_paths.PREFERRED_REPLICA_ELECTION
        await own.store.create(path, encode_partitions([ORDERS]))
        await own.until_leader(ORDERS, 3)
        await asyncio.sleep(1)
        assert await own.store.exists(path) is None

    run_cluster(scenario)


def test_preferred_leader_is_elected_by_the_timer():
    async def scenario(own):
        await own.create_topic("orders", (3, 2, 1))
        await bounce(own, 3)
        assert (await own.state(ORDERS)).leader == 2
        await own.clock.sleep_ms(61_000)
        await own.until_leader(ORDERS, 3)

    settings = {"auto.leader.rebalance.enable": "true", "leader.imbalance.check.interval.seconds": "60"}
    run_cluster(scenario, settings=settings)


# Unclean elections.


async def lose_isr(own: OwnCluster) -> None:
    """Leave a partition of brokers 2 and 3 with broker 3 alive, which is out of sync."""
    await own.create_topic("orders", (2, 3), configs={"min.insync.replicas": "1"})
    await own.kill(3)
    await own.until_isr(ORDERS, 2)
    assert await own.produce(2, ORDERS, b"x") == ErrorCode.NONE
    await own.kill(2)
    await own.start(3)
    await own.until_controller()
    await asyncio.sleep(2)
    state = await own.state(ORDERS)
    assert (state.leader, state.isr) == (NO_LEADER, (2,))


def test_unclean_leader_is_elected_by_request():
    async def scenario(own):
        await lose_isr(own)
        assert await elect(own, PREFERRED, 0) == {0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
        assert await elect(own, UNCLEAN, 0) == {0: ErrorCode.NONE}
        state = await own.state(ORDERS)
        assert (state.leader, state.isr) == (3, (3,))
        assert state.is_recovering
        assert await elect(own, UNCLEAN, 0) == {0: ErrorCode.ELECTION_NOT_NEEDED}
        await own.start(2)
        # The leader's next ISR change says that it has recovered.
        await own.until_isr(ORDERS, 2, 3)
        assert not (await own.state(ORDERS)).is_recovering

    run_cluster(scenario)


def test_unclean_leader_is_elected_when_the_topic_allows_it():
    async def scenario(own):
        await lose_isr(own)
        config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
        await change_config(own.store, "topics", "orders", config)
        await own.until_leader(ORDERS, 3)

    run_cluster(scenario)


def test_unclean_leader_is_elected_when_the_default_allows_it():
    async def scenario(own):
        await lose_isr(own)
        await change_config(own.store, "brokers", "<default>", {"unclean.leader.election.enable": "true"})
        await own.until_leader(ORDERS, 3)

    run_cluster(scenario)


def test_clean_topic_waits_for_its_in_sync_replica():
    async def scenario(own):
        await lose_isr(own)
        await change_config(own.store, "topics", "orders", {"unclean.leader.election.enable": "false"})
        await asyncio.sleep(30)
        assert (await own.state(ORDERS)).leader == NO_LEADER
        await own.start(2)
        await own.until_leader(ORDERS, 2)
        await own.until_isr(ORDERS, 2, 3)

    run_cluster(scenario)


# Reassignments.


def test_partition_moves_to_other_brokers():
    async def scenario(own):
        await own.create_topic("orders", (1, 2))
        for number in range(5):
            assert await own.produce(1, ORDERS, b"%d" % number) == ErrorCode.NONE
        assert await reassign(own, 0, [3, 4]) == ErrorCode.NONE
        await until_assigned(own, (3, 4))
        await own.until_leader(ORDERS, 3)
        await own.until_isr(ORDERS, 3, 4)
        assert await ongoing(own) == {}
        managers = {b: broker.broker.replica_manager for b, broker in own.brokers.items()}
        await own.until(lambda: managers[1].get_partition(*ORDERS) is None)
        await own.until(lambda: managers[2].get_partition(*ORDERS) is None)
        moved = managers[3].get_partition(*ORDERS)
        assert moved is not None
        assert moved.log_end_offset == 5
        assert await own.produce(3, ORDERS, b"x") == ErrorCode.NONE

    run_cluster(scenario, size=4)


def test_reassignment_waits_for_a_dead_broker_is_listed_and_cancelled():
    async def scenario(own):
        await own.create_topic("orders", (1, 2))
        await own.kill(3)
        await own.until_controller()
        assert await reassign(own, 0, [1, 3]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        await own.start(3)
        await own.until_controller()
        # Broker 3 does not hear of it, so that it cannot be completed.
        for host in ("broker-1", "broker-2"):
            own.cluster.network.partition("broker-3", host)
        assert await reassign(own, 0, [1, 3]) == ErrorCode.NONE
        assert await ongoing(own) == {0: ([1, 3, 2], [3], [2])}
        assert await reassign(own, 0, None) == ErrorCode.NONE
        assert await ongoing(own) == {}
        assert await reassign(own, 0, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        own.cluster.network.heal()
        assert await assigned(own) == ReplicaAssignment((1, 2))
        assert await own.produce(1, ORDERS, b"x") == ErrorCode.NONE

    run_cluster(scenario)


def test_reassignment_is_completed_by_the_next_controller():
    async def scenario(own):
        await own.create_topic("orders", (2, 3))
        for host in ("broker-1", "broker-2", "broker-3"):
            own.cluster.network.partition("broker-4", host)
        assert await reassign(own, 0, [2, 4]) == ErrorCode.NONE
        await own.kill(1)
        own.cluster.network.heal()
        await own.until_controller(after=1)
        await until_assigned(own, (2, 4))
        await own.until_isr(ORDERS, 2, 4)

    run_cluster(scenario, size=4)


def test_partition_moves_by_node():
    async def scenario(own):
        await own.create_topic("orders", (1, 2))
        await own.store.create(znode_paths.REASSIGN_PARTITIONS, encode_reassignment({ORDERS: (3, 1)}))
        await until_assigned(own, (3, 1))
        await asyncio.sleep(1)
        assert await own.store.exists(znode_paths.REASSIGN_PARTITIONS) is None

    run_cluster(scenario)


# ISR changes and log directories.


def test_follower_that_falls_behind_leaves_the_isr_and_joins_again():
    async def scenario(own):
        await own.create_topic("orders", (2, 3, 1))
        for host in ("broker-2", "broker-1"):
            own.cluster.network.partition("broker-3", host)
        produced = asyncio.ensure_future(own.produce(2, ORDERS, b"x"))
        await own.until_isr(ORDERS, 1, 2)
        assert await produced == ErrorCode.NONE
        own.cluster.network.heal()
        await own.until_isr(ORDERS, 1, 2, 3)

    run_cluster(scenario)


def test_failed_log_directory_moves_leaders():
    async def scenario(own):
        await own.create_topic("orders", (3, 2, 1))
        (failed,) = [d for d in own.brokers[3].broker._log_manager if d.log_count]
        failed.fail(unusable_directory(failed.path, OSError(5, "Input/output error")))
        await own.until_stored(ORDERS, lambda state: state.leader == 2)
        await own.until_isr(ORDERS, 1, 2)
        assert await own.store.children(znode_paths.LOG_DIR_EVENT_NOTIFICATION) == []

    run_cluster(scenario, settings={"log.dirs": "/data,/data2"})
