"""Brokers killed, paused, bounced and stopped under load: nothing is lost, and all return to the ISR."""

from __future__ import annotations

import time

import pytest
from tests.mixed.harness.broker_spec import LONG_SESSION_TIMEOUT_MS, SESSION_TIMEOUT_MS
from tests.mixed.harness.load import Load, check_load
from tests.mixed.harness.log_files import check_replicas_equal
from tests.mixed.harness.mixed_cluster import BROKERS, MixedCluster
from tests.mixed.harness.run_choice import IS_OURS, KAFKA, KAFKA_BROKERS, OURS, PAIR, others_than
from tests.support.interbroker.clients import Clients

RECORDS_BETWEEN_FAULTS = 200
SPREAD = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]


@pytest.mark.parametrize(
    ("leader", "victim"),
    [(KAFKA_BROKERS[0], OURS), (OURS, OURS), (OURS, KAFKA), PAIR, (KAFKA, KAFKA)],
    ids=["our-follower", "our-leader", "kafka-follower", "follower-of-its-kind", "kafka-leader"],
)
def test_killed_broker_returns_and_no_record_is_lost(
    cluster: MixedCluster, clients: Clients, leader: int, victim: int
) -> None:
    topic = f"killed-{leader}-{victim}"
    clients.create_topic(topic, [[leader, *others_than(leader)]])
    cluster.wait_for_partition(topic, leader=leader)
    with Load(cluster, topic) as load:
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        cluster.kill(victim)
        cluster.wait_for_partition(topic, isr=others_than(victim))
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        cluster.start(victim)
        cluster.wait_for_partition(topic)
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
    check_load(cluster, load)
    check_replicas_equal(cluster, topic)


@pytest.mark.parametrize("victim", [OURS, KAFKA_BROKERS[0]], ids=["ours", "kafka"])
def test_broker_whose_session_expired_returns_under_a_new_epoch(
    cluster: MixedCluster, clients: Clients, victim: int
) -> None:
    """It leads a partition and follows in two, resumes with requests in its queues, and joins again."""
    topic = f"paused-{victim}"
    clients.create_topic(topic, SPREAD)
    for partition, leader in enumerate(BROKERS):
        cluster.wait_for_partition(topic, partition, leader=leader)
    epoch = cluster.znodes.broker_epoch(victim)
    assert epoch is not None
    with Load(cluster, topic, range(3)) as load:
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        with cluster.session_expired(victim):
            for partition in range(3):
                cluster.wait_for_partition(topic, partition, isr=others_than(victim))
            load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        cluster.wait_until(lambda: (cluster.znodes.broker_epoch(victim) or 0) > epoch)
        for partition in range(3):
            cluster.wait_for_partition(topic, partition)
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        clients.elect_preferred([(topic, victim)])
        cluster.wait_for_partition(topic, victim, leader=victim)
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        cluster.restart(others_than(victim)[-1])  # the victim adds it to the ISR, under its new epoch
        for partition in range(3):
            cluster.wait_for_partition(topic, partition)
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
    check_load(cluster, load)
    check_replicas_equal(cluster, topic, range(3))


@pytest.mark.parametrize("victim", [OURS, KAFKA], ids=["ours", "kafka"])
def test_stopped_leader_hands_over_and_leads_again_when_elected(
    cluster: MixedCluster, clients: Clients, victim: int
) -> None:
    topic = f"stopped-{victim}"
    survivors = others_than(victim)
    clients.create_topic(topic, [[victim, *survivors]])
    cluster.wait_for_partition(topic, leader=victim)
    with Load(cluster, topic) as load:
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        cluster.stop(victim)
        cluster.wait_for_partition(topic, leader=survivors[0], isr=survivors)
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        cluster.start(victim)
        cluster.wait_for_partition(topic, leader=survivors[0])
        clients.elect_preferred([(topic, 0)])
        cluster.wait_for_partition(topic, leader=victim)
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
    check_load(cluster, load)
    check_replicas_equal(cluster, topic)


@pytest.mark.parametrize("leader", [OURS, KAFKA], ids=["leads", "follows"])
def test_our_broker_killed_and_restarted_within_its_session(
    cluster: MixedCluster, clients: Clients, leader: int
) -> None:
    """It cannot register before the session of its former process has expired, and then has a new epoch."""
    topic = f"restarted-{leader}"
    clients.create_topic(topic, [[leader, *others_than(leader)]])
    cluster.wait_for_partition(topic, leader=leader)
    epoch = cluster.znodes.broker_epoch(OURS) or 0
    with Load(cluster, topic) as load:
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        cluster.kill(OURS)
        killed_at = time.monotonic()
        cluster.start_until_registered(OURS)
        # The last heartbeat was at most a third of the timeout before. How many starts fail until then
        # depends on their speed.
        assert time.monotonic() - killed_at > SESSION_TIMEOUT_MS / 2_000
        assert (cluster.znodes.broker_epoch(OURS) or 0) > epoch
        cluster.wait_for_partition(topic)
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
    check_load(cluster, load)
    check_replicas_equal(cluster, topic)


@pytest.mark.parametrize("leads", [True, False], ids=["leads", "follows"])
def test_bounce_that_the_controller_notices_late(
    cluster: MixedCluster, clients: Clients, leads: bool
) -> None:
    """The controller finds a broker of the other kind registered as before, under another broker epoch."""
    controller, victim = (OURS, KAFKA) if IS_OURS else (KAFKA, OURS)
    (third,) = others_than(controller, victim)
    leader = victim if leads else third
    topic = f"bounced-{leader}"
    cluster.specs[controller].settings["zookeeper.session.timeout.ms"] = str(LONG_SESSION_TIMEOUT_MS)
    cluster.restart(controller)
    cluster.elect_controller(controller)
    clients.create_topic(topic, [[leader, *others_than(leader)]])
    cluster.wait_for_partition(topic, leader=leader)
    state, epoch = cluster.znodes.partition_state(topic), cluster.znodes.broker_epoch(victim) or 0
    with Load(cluster, topic) as load:
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        with cluster.paused(controller):
            cluster.kill(victim)
            cluster.znodes.delete(f"/brokers/ids/{victim}")  # as if the session had ended by now
            cluster.launch(victim)
            cluster.wait_until(lambda: (cluster.znodes.broker_epoch(victim) or 0) > epoch)
            assert cluster.znodes.controller() == controller
        cluster.wait_until_joined(victim)
        cluster.wait_for_partition(topic)
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        assert cluster.znodes.partition_state(topic)["leader_epoch"] > state["leader_epoch"]
    check_load(cluster, load)
    check_replicas_equal(cluster, topic)
