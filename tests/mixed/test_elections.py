"""Quick elections with divergent tails, and controllers that move, under load."""

from __future__ import annotations

import pytest
from tests.mixed.harness.load import Load, check_load, compare, read_values
from tests.mixed.harness.log_files import check_replicas_equal
from tests.mixed.harness.mixed_cluster import KAFKA, OURS, MixedCluster
from tests.support.interbroker.clients import Clients

RECORDS_BETWEEN_FAULTS = 200
TAIL_RECORDS = 100
MOVES = 4


def kill_leader_with_tail(cluster: MixedCluster, noise: Load, leader: int) -> None:
    """Kill the leader after it has acknowledged records that no running follower has; await the next one."""
    followers = [broker for broker in cluster.running if broker != leader]
    with cluster.paused(*followers):
        noise.wait_for_acknowledged(TAIL_RECORDS)
        cluster.kill(leader)
    cluster.wait_until(lambda: cluster.znodes.partition_state(noise.topic)["leader"] in followers)
    noise.wait_for_acknowledged(TAIL_RECORDS)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("order", [[OURS, 0, 1], [0, OURS, 1]], ids=["ours-first", "ours-second"])
def test_logs_are_equal_after_three_elections_with_divergent_tails(
    cluster: MixedCluster, clients: Clients, order: list[int]
) -> None:
    first, second, third = order
    topic = f"divergent-{first}"
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


@pytest.mark.parametrize("leader", [OURS, 0], ids=["leads", "follows"])
def test_controllers_of_kafka_move_while_ours_replicates(
    cluster: MixedCluster, clients: Clients, leader: int
) -> None:
    topic = f"controllers-{leader}"
    clients.create_topic(topic, [[leader, *(broker for broker in (OURS, 0, 1) if broker != leader)]])
    cluster.wait_for_partition(topic, leader=leader)
    leader_epoch = cluster.znodes.partition_state(topic)["leader_epoch"]
    with Load(cluster, topic) as load:
        for number in range(MOVES):
            load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
            cluster.elect_controller(KAFKA[number % 2])
        cluster.wait_for_partition(topic, leader=leader)
        assert cluster.znodes.partition_state(topic)["leader_epoch"] == leader_epoch
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
    check_load(cluster, load)
    check_replicas_equal(cluster, topic)


def test_controller_is_killed_while_ours_leads(cluster: MixedCluster, clients: Clients) -> None:
    topic = "killed-controller"
    controller, follower = KAFKA
    cluster.elect_controller(controller)
    clients.create_topic(topic, [[OURS, 0, 1]])
    cluster.wait_for_partition(topic, leader=OURS)
    with Load(cluster, topic) as load:
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        cluster.kill(controller)
        cluster.wait_until(lambda: cluster.znodes.controller() in (OURS, follower))
        cluster.wait_for_partition(topic, leader=OURS, isr=[OURS, follower])
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        cluster.start(controller)
        cluster.wait_for_partition(topic, leader=OURS)
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
    check_load(cluster, load)
    check_replicas_equal(cluster, topic)
