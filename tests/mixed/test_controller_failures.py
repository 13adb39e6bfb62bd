"""The controller fails in the middle of its work with a leader, or as the leader itself."""

from __future__ import annotations

import base64
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from tests.mixed.harness.load import Load, check_load, compare, read_values
from tests.mixed.harness.log_files import check_replicas_equal, read_batches
from tests.mixed.harness.lossy_link import LossyLink
from tests.mixed.harness.mixed_cluster import MixedCluster
from tests.mixed.harness.run_choice import KAFKA, KAFKA_BROKERS, OURS, others_than
from tests.mixed.harness.tally import TALLY
from tests.support.broker import free_port
from tests.support.interbroker.clients import Clients

STOP_REPLICA = 5
ALTER_PARTITION = 56
DELETES_PARTITION_0 = struct.pack(">BiiB", 2, 0, -2, 1)
"""After the name of a topic in StopReplica: one partition, without its leader epoch, is deleted."""
RECORDS_BETWEEN_FAULTS = 200
PENDING_BATCHES = 30
PAUSE_SECONDS = 30.0
PATIENT_MS = 150_000
"""Clients that keep their connections and requests during the pause of a broker."""


def read_topic_id(cluster: MixedCluster, topic: str) -> bytes:
    return base64.urlsafe_b64decode(cluster.znodes.topic(topic)["topic_id"] + "==")


@contextmanager
def linked(cluster: MixedCluster, broker: int) -> Iterator[LossyLink]:
    """Restart a broker behind a link at its address; at the end, kill it."""
    spec, port = cluster.specs[broker], free_port()
    cluster.stop(broker)
    with LossyLink(spec.port, port) as link:
        spec.settings["listeners"] = f"PLAINTEXT://127.0.0.1:{port}"
        spec.settings["advertised.listeners"] = f"PLAINTEXT://{spec.address}"
        try:
            cluster.start(broker)
            yield link
        finally:
            spec.settings.clear()
            if broker in cluster.running:
                cluster.kill(broker)


@pytest.mark.parametrize(
    ("controller", "leader"), [(KAFKA, OURS), (OURS, KAFKA)], ids=["ours-leads", "kafka-leads"]
)
def test_leader_changes_its_isr_after_lost_answers_under_the_next_controller(
    cluster: MixedCluster, clients: Clients, controller: int, leader: int
) -> None:
    """The controller has stored a larger ISR, of which the leader does not hear; then another is elected."""
    topic = f"lost-answers-{leader}"
    (third,) = others_than(controller, leader)
    clients.create_topic(topic, [[leader, third, controller]])
    cluster.wait_for_partition(topic, leader=leader)
    with Load(cluster, topic) as load:
        with linked(cluster, controller) as link:
            cluster.elect_controller(controller)
            cluster.wait_for_partition(topic)
            load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
            cluster.kill(third)
            cluster.wait_for_partition(topic, leader=leader, isr=[leader, controller])
            link.lose_answers(ALTER_PARTITION, read_topic_id(cluster, topic))
            cluster.start(third)
            cluster.wait_until(lambda: third in cluster.znodes.partition_state(topic)["isr"])
            cluster.wait_until(lambda: link.lost > 0)
            assert cluster.znodes.controller() == controller
            cluster.elect_controller(third)
            link.lose_nothing()
            load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
            cluster.wait_for_partition(topic, leader=leader)
        cluster.wait_for_partition(topic, leader=leader, isr=[leader, third])
        cluster.start(controller)
        cluster.wait_for_partition(topic, leader=leader)  # the leader has added the replica
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
    check_load(cluster, load)
    check_replicas_equal(cluster, topic)


@pytest.mark.parametrize(
    ("victim", "controller"), [(OURS, KAFKA), (KAFKA, OURS)], ids=["reaches-ours", "reaches-kafka"]
)
def test_deletion_of_a_former_controller_that_arrives_late_spares_a_new_topic(
    cluster: MixedCluster, clients: Clients, victim: int, controller: int
) -> None:
    """StopReplica names no topic id: only the controller's epoch tells that a former topic is meant.

    The next controller has completed the deletion and created a topic with the same name.
    """
    topic = f"deleted-late-{victim}"
    (third,) = others_than(controller, victim)
    assignment = [[third, controller, victim]]
    clients.create_topic(topic, assignment)
    cluster.wait_for_partition(topic, leader=third)
    with linked(cluster, victim) as link:
        cluster.elect_controller(controller)
        cluster.wait_for_partition(topic, leader=third)
        link.hold_request(STOP_REPLICA, topic.encode() + DELETES_PARTITION_0)
        cluster.znodes.create(f"/admin/delete_topics/{topic}")  # our controller answers only at the end
        cluster.wait_until(lambda: link.is_holding)
        assert cluster.znodes.topic(topic), "the topic waits for the broker"
        cluster.elect_controller(third)
        cluster.wait_until(lambda: not cluster.znodes.topic(topic))
        clients.create_topic(topic, assignment)
        cluster.wait_for_partition(topic, leader=third)
        with Load(cluster, topic) as load:
            load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
            link.release()
            cluster.wait_until(lambda: link.held_was_answered)
            load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        check_load(cluster, load)
        check_replicas_equal(cluster, topic)


@pytest.mark.parametrize(
    ("victim", "follower"), [(OURS, KAFKA_BROKERS[0]), (KAFKA, OURS)], ids=["ours", "kafka"]
)
def test_leader_and_controller_resumes_with_queued_requests_after_its_session(
    cluster: MixedCluster, clients: Clients, victim: int, follower: int
) -> None:
    """The log has records that no follower has when the broker is paused, and their producers wait for it.

    After 30 s it goes on as if it led. It must not acknowledge them when it learns that it does not.
    """
    topic = f"queued-{victim}"
    cluster.elect_controller(victim)
    clients.create_topic(topic, [[victim, follower]], {"min.insync.replicas": "1"})
    cluster.wait_for_partition(topic, leader=victim, isr=[victim, follower])
    epoch = cluster.znodes.broker_epoch(victim) or 0
    with (
        Load(cluster, topic, prefix=b"patient", timeout_ms=PATIENT_MS) as patient,
        Load(cluster, topic, prefix=b"tail", acks="1", timeout_ms=PATIENT_MS) as noise,
        Load(cluster, topic, prefix=b"usual") as usual,
        ExitStack() as resuming,
    ):
        patient.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        with cluster.paused(follower):
            count = len(read_batches(cluster.replica_path(victim, topic)))
            cluster.wait_until(
                lambda: len(read_batches(cluster.replica_path(victim, topic))) > count + PENDING_BATCHES
            )
            resuming.enter_context(cluster.paused(victim))
        paused_at = time.monotonic()
        cluster.wait_until(lambda: cluster.znodes.broker_epoch(victim) is None)
        TALLY.faults["expired sessions"] += 1
        cluster.wait_for_partition(topic, leader=follower, isr=[follower])
        usual.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        cluster.wait_until(lambda: time.monotonic() > paused_at + PAUSE_SECONDS)
        resuming.close()
        cluster.wait_until(lambda: (cluster.znodes.broker_epoch(victim) or 0) > epoch)
        cluster.wait_for_partition(topic, leader=follower, isr=[victim, follower])
        for load in (patient, usual):
            load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
    for load in (patient, usual):
        check_load(cluster, load)
    check_replicas_equal(cluster, topic, replicas=[victim, follower])
    tails = [value for value in read_values(cluster.bootstrap, topic) if value.startswith(b"tail")]
    assert compare(noise.acknowledged[0], tails).lost > 0, "no tail diverged"
