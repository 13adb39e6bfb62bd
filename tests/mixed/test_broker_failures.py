"""Brokers killed and stopped under load: no acknowledged record is lost, and all return to the ISR."""

import pytest
from tests.mixed.load import Load, read_values
from tests.mixed.log_files import log_bytes
from tests.mixed.mixed_cluster import BROKERS, OURS, MixedCluster
from tests.support.interbroker.clients import Clients

RECORDS_BETWEEN_FAULTS = 200


def check_records(cluster: MixedCluster, load: Load, topic: str) -> None:
    """Check that acknowledged records are there once and in order, and logs are equal."""
    assert load.failures == []
    values = read_values(cluster.bootstrap, topic)
    assert values == load.acknowledged
    logs = {broker: log_bytes(cluster, broker, topic) for broker in BROKERS}
    assert logs[OURS] == logs[0] == logs[1]


@pytest.mark.parametrize(
    ("leader", "victim"),
    [(0, OURS), (OURS, OURS), (OURS, 1), (0, 1), (1, 1)],
    ids=["our-follower", "our-leader", "kafka-follower-of-ours", "kafka-follower-of-kafka", "kafka-leader"],
)
def test_killed_broker_returns_and_no_record_is_lost(
    cluster: MixedCluster, clients: Clients, leader: int, victim: int
) -> None:
    topic = f"killed-{leader}-{victim}"
    assignment = [leader, *(broker for broker in BROKERS if broker != leader)]
    clients.create_topic(topic, [assignment])
    cluster.wait_for_partition(topic, leader=leader)
    survivors = [broker for broker in BROKERS if broker != victim]
    with Load(cluster.bootstrap, topic) as load:
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        cluster.kill(victim)
        cluster.wait_for_partition(topic, isr=survivors)
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        cluster.start(victim)
        cluster.wait_for_partition(topic)
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
    check_records(cluster, load, topic)


@pytest.mark.parametrize("leader", [OURS, 0], ids=["ours", "kafka"])
def test_leader_whose_session_expired_during_a_pause_loses_no_record(
    cluster: MixedCluster, clients: Clients, leader: int
) -> None:
    topic = f"paused-{leader}"
    survivors = [broker for broker in BROKERS if broker != leader]
    clients.create_topic(topic, [[leader, *survivors]])
    cluster.wait_for_partition(topic, leader=leader)
    with Load(cluster.bootstrap, topic) as load:
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        with cluster.paused(leader):
            cluster.wait_for_partition(topic, leader=survivors[0], isr=survivors)
            load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        cluster.wait_for_partition(topic)
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
    check_records(cluster, load, topic)


@pytest.mark.parametrize("victim", [OURS, 1], ids=["ours", "kafka"])
def test_stopped_leader_hands_over_and_leads_again_when_elected(
    cluster: MixedCluster, clients: Clients, victim: int
) -> None:
    topic = f"stopped-{victim}"
    survivors = [broker for broker in BROKERS if broker != victim]
    clients.create_topic(topic, [[victim, *survivors]])
    cluster.wait_for_partition(topic, leader=victim)
    with Load(cluster.bootstrap, topic) as load:
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        cluster.stop(victim)
        cluster.wait_for_partition(topic, leader=survivors[0], isr=survivors)
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        cluster.start(victim)
        cluster.wait_for_partition(topic, leader=survivors[0])
        clients.elect_preferred([(topic, 0)])
        cluster.wait_for_partition(topic, leader=victim)
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
    check_records(cluster, load, topic)
