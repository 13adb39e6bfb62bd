"""Quick elections with divergent tails, and controllers that move, under load."""

from __future__ import annotations

import pytest
from tests.mixed.harness.load import Load, check_load, compare, read_values
from tests.mixed.harness.log_files import check_replicas_equal
from tests.mixed.harness.mixed_cluster import MixedCluster
from tests.mixed.harness.run_choice import (
    IS_OURS,
    KAFKA,
    KAFKA_BROKERS,
    LONE,
    OUR_BROKERS,
    OURS,
    PAIR,
    needs,
    others_than,
)
from tests.support.interbroker.clients import Clients

RECORDS_BETWEEN_FAULTS = 200
TAIL_RECORDS = 50
LONE_NAME = "ours" if LONE == OURS else "kafka"
ORDERS = [
    pytest.param([LONE, *PAIR], id=f"{LONE_NAME}-first"),
    pytest.param([PAIR[0], LONE, PAIR[1]], id=f"{LONE_NAME}-second"),
    # The first two elections are the same as in the other orders, for a controller of the pair's kind.
    pytest.param([*PAIR, LONE], id=f"{LONE_NAME}-last", marks=needs("our code")),
]


def controllers_in_turn() -> list[int]:
    """Return brokers that are elected in turn; if only one is of the kind of this run, ours come between."""
    if IS_OURS:
        return [KAFKA_BROKERS[0], OURS, KAFKA, OUR_BROKERS[0]]
    return [*KAFKA_BROKERS] * 2 if len(KAFKA_BROKERS) > 1 else [OURS, KAFKA, OUR_BROKERS[0], KAFKA]


def kill_leader_with_tail(cluster: MixedCluster, noise: Load, leader: int) -> None:
    """Kill the leader after it has acknowledged records that no running follower has; await the next one."""
    followers = [broker for broker in cluster.running if broker != leader]
    with cluster.paused(*followers):
        noise.wait_for_acknowledged(TAIL_RECORDS)
        cluster.kill(leader)
    cluster.wait_until(lambda: cluster.znodes.partition_state(noise.topic)["leader"] in followers)
    noise.wait_for_acknowledged(TAIL_RECORDS)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("order", ORDERS)
def test_logs_are_equal_after_three_elections_with_divergent_tails(
    cluster: MixedCluster, clients: Clients, order: list[int]
) -> None:
    first, second, third = order
    topic = f"divergent-{first}-{second}"
    clients.create_topic(topic, [order])
    cluster.wait_for_partition(topic, leader=first)
    with (
        Load(cluster, topic, prefix=b"checked") as load,
        Load(cluster, topic, acks="1", prefix=b"tail") as noise,
    ):
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        kill_leader_with_tail(cluster, noise, first)
        cluster.wait_for_partition(topic, leader=second, isr=[second, third])
        kill_leader_with_tail(cluster, noise, second)
        cluster.wait_for_partition(topic, leader=third, isr=[third])
        cluster.start(second)
        cluster.start(first)
        cluster.wait_for_partition(topic, leader=third)
        kill_leader_with_tail(cluster, noise, third)
        cluster.start_until_registered(third)
        cluster.wait_for_partition(topic)
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
    check_load(cluster, load)
    check_replicas_equal(cluster, topic)
    tails = [value for value in read_values(cluster.bootstrap, topic) if value.startswith(b"tail")]
    assert compare(noise.acknowledged[0], tails).lost > 0, "no tail diverged"


@pytest.mark.parametrize("leader", [OURS, KAFKA_BROKERS[0]], ids=["leads", "follows"])
def test_controllers_move_while_ours_replicates(cluster: MixedCluster, clients: Clients, leader: int) -> None:
    topic = f"controllers-{leader}"
    clients.create_topic(topic, [[leader, *others_than(leader)]])
    cluster.wait_for_partition(topic, leader=leader)
    leader_epoch = cluster.znodes.partition_state(topic)["leader_epoch"]
    with Load(cluster, topic) as load:
        for controller in controllers_in_turn():
            load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
            cluster.elect_controller(controller)
        cluster.wait_for_partition(topic, leader=leader)
        assert cluster.znodes.partition_state(topic)["leader_epoch"] == leader_epoch
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
    check_load(cluster, load)
    check_replicas_equal(cluster, topic)


def test_controller_is_killed_while_the_other_kind_leads(cluster: MixedCluster, clients: Clients) -> None:
    topic = "killed-controller"
    controller, leader = (OURS, KAFKA) if IS_OURS else (KAFKA, OURS)
    (follower,) = others_than(controller, leader)
    cluster.elect_controller(controller)
    clients.create_topic(topic, [[leader, controller, follower]])
    cluster.wait_for_partition(topic, leader=leader)
    with Load(cluster, topic) as load:
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        cluster.kill(controller)
        cluster.wait_until(lambda: cluster.znodes.controller() in (leader, follower))
        cluster.wait_for_partition(topic, leader=leader, isr=[leader, follower])
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        cluster.start(controller)
        cluster.wait_for_partition(topic, leader=leader)
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
    check_load(cluster, load)
    check_replicas_equal(cluster, topic)
