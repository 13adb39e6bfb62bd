"""Operations, each as a function of a scene: what an operator does, and what must hold afterwards."""

from __future__ import annotations

import operator
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from tests.cluster_faults.harness.checks import check_replicas
from tests.cluster_faults.harness.fault_cluster import BROKERS, SESSION_TIMEOUT_MS, TOPICS
from tests.cluster_faults.harness.scene import PARTITIONS, SPREAD, Scene
from tests.cluster_faults.harness.senders import ConfluentProbe, OdradekProbe, send_all
from tests.cluster_faults.harness.topic_changes import check_topic
from tests.cluster_operations.harness.operated_cluster import EnsembleCluster, OperatedCluster

ADDED = (4, 5, 6)
ARCHIVE_RECORDS = 3_000
ARCHIVE_BYTES = 5_000
THROTTLE = 50_000_000
REQUEST_SECONDS_MAX = 5
BEYOND_SESSION_SECONDS = 2 * SESSION_TIMEOUT_MS / 1000


@contextmanager
def timed(scene: Scene, name: str) -> Iterator[None]:
    """Note the longest time without an acknowledgement, of probes on the partition of the probe topic."""
    address = scene.cluster.bootstrap, scene.probe_topic
    scene.note(name)
    with ConfluentProbe(*address) as theirs, OdradekProbe(*address) as ours:
        began = max(probe.wait_for_acknowledged(0.0) for probe in (theirs, ours))
        yield
        moment = time.monotonic()
        ended = max(probe.wait_for_acknowledged(moment) for probe in (theirs, ours))
    for client, probe in (("confluent-kafka", theirs), ("odradek", ours)):
        scene.report.check(not probe.errors, f"client-error: of a probe: {probe.errors[:3]}")
        outcome = f"longest stall in ms, {name}, {client}"
        stall = round(1000 * probe.longest_stall(began, ended))
        scene.report.outcomes[outcome] = max(scene.report.outcomes[outcome], stall)
    for violation in check_replicas(
        scene.cluster, scene.probe_topic, 0, scene.cluster.replicas(scene.probe_topic, 0)
    ):
        scene.report.violate(violation)


def operated(scene: Scene) -> OperatedCluster:
    assert isinstance(scene.cluster, OperatedCluster)
    return scene.cluster


# Replacements.


@contextmanager
def archive(scene: Scene) -> Iterator[None]:
    """Have a topic of several segments, which nobody writes to meanwhile; check it at the end."""
    topic, partitions = f"{scene.topic}-archive", range(PARTITIONS)
    values = [f"{number}-{'x' * ARCHIVE_BYTES}" for number in range(ARCHIVE_RECORDS)]
    scene.clients.create_topic(topic, SPREAD)
    scene.cluster.wait_until_in_sync([topic])
    send_all(scene.cluster.bootstrap, topic, partitions, values)
    yield
    check_topic(scene, topic, partitions, values, BROKERS)


def replace_brokers(scene: Scene) -> None:
    """Kill one broker after the other and start it without any data: in the end, all data was copied."""
    with archive(scene):
        for broker in BROKERS:
            replace_broker(scene, broker)


def replace_broker(scene: Scene, broker: int) -> None:
    cluster = operated(scene)
    with timed(scene, "broker replaced"):
        cluster.kill(broker)
        cluster.remove_disks(broker, cluster.log_dirs(broker))
        cluster.start(broker)
        cluster.wait_until_in_sync()
        scene.wait_for_progress()


def replace_disks(scene: Scene) -> None:
    """Replace one disk of one broker after the other by an empty one."""
    with archive(scene):
        for broker in BROKERS:
            replace_disk(scene, broker)


def replace_disk(scene: Scene, broker: int) -> None:
    cluster = operated(scene)
    disk = cluster.log_dirs(broker)[broker % 2]
    assert list(disk.glob(f"{scene.topic}-[0-9]*")), f"{disk} must have a replica of the topic"
    with timed(scene, "disk replaced"):
        cluster.stop(broker)
        cluster.remove_disks(broker, [disk])
        cluster.start(broker)
        cluster.wait_until_in_sync()
        scene.wait_for_progress()


# Reassignments.


def grow(scene: Scene) -> None:
    """Let a fourth broker join, and move a part of all partitions to it."""
    with timed(scene, "grown"):
        join(scene, 4)
        reassign(scene, "grow.json", "--all-topics", "--broker-list", "1,2,3,4")
    scene.report.check(4 in hosts(scene, [scene.topic]), "not-moved: broker 4 has no replica")


def shrink(scene: Scene) -> None:
    """Move everything away from broker 1, and stop it for good."""
    cluster = operated(scene)
    with timed(scene, "shrunk"):
        reassign(scene, "shrink.json", "--all-topics", "--broker-list", "2,3,4")
        left = hosts(scene, cluster.znodes.children(TOPICS))
        scene.report.check(left == {2, 3, 4}, f"not-moved: replicas are on {left}")
        cluster.members.remove(1)
        cluster.stop(1)
        cluster.wait_until_in_sync()
        scene.wait_for_progress()


def move_topics(scene: Scene) -> None:
    """Move all partitions to three other brokers, and back with the rollback file."""
    topics = [scene.topic, scene.probe_topic]
    join(scene, *ADDED)
    with timed(scene, "moved"):
        reassign(scene, "move.json", "--topics", ",".join(topics), "--broker-list", "4,5,6")
    there = hosts(scene, topics)
    with timed(scene, "moved back"):
        execute(scene, "move.rollback.json")
    back = hosts(scene, topics)
    scene.report.check(there == set(ADDED), f"not-moved: replicas are on {there}")
    scene.report.check(back == set(BROKERS), f"not-moved: replicas are back on {back}")


def join(scene: Scene, *brokers: int) -> None:
    scene.cluster.members += brokers
    scene.cluster.start(*brokers)


def hosts(scene: Scene, topics: Sequence[str]) -> set[int]:
    """Return the brokers that have replicas of topics."""
    assignments = [scene.cluster.znodes.topic(topic)["partitions"].values() for topic in topics]
    return {broker for assignment in assignments for replicas in assignment for broker in replicas}


def reassign(scene: Scene, file: str, *choice: str) -> None:
    """Generate a proposal, execute and verify it."""
    generated = operated(scene).command("reassign", "generate", *choice, "--output", file)
    assert generated.returncode == 0, generated.stdout + generated.stderr
    execute(scene, file)


def execute(scene: Scene, file: str) -> None:
    """Execute a reassignment with a throttle, and verify it until it is completed."""
    cluster = operated(scene)
    option = ("--reassignment-json-file", file)
    executed = cluster.command("reassign", "execute", *option, "--throttle", str(THROTTLE), "--yes")
    assert executed.returncode == 0, executed.stdout + executed.stderr
    cluster.wait_until(
        lambda: cluster.command("reassign", "verify", *option).returncode == 0, f"{file} must be completed"
    )
    cluster.wait_until_in_sync()
    cluster.wait_until(lambda: not list(left_behind(scene)), "former replicas must be deleted")
    scene.wait_for_progress()


def left_behind(scene: Scene) -> Iterator[Path]:
    """Yield directories of the topic's replicas that are not assigned."""
    for partition in range(PARTITIONS):
        replicas = scene.cluster.replicas(scene.topic, partition)
        for broker in set(scene.cluster.members) - set(replicas):
            if (directory := scene.cluster.replica_dir(broker, scene.topic, partition)).exists():
                yield directory


# ZooKeeper.


def lose_server(scene: Scene) -> None:
    """Kill each ZooKeeper server in turn: no session expires and no leader changes."""
    cluster = ensemble(scene)
    for server in BROKERS:
        before = control_plane(scene)
        with timed(scene, "one ZooKeeper server killed"), cluster.servers_killed(server):
            time.sleep(BEYOND_SESSION_SECONDS)
            create_topic(scene, f"{scene.topic}-without-{server}")
            scene.wait_for_progress()
        after = control_plane(scene)
        scene.report.check(before == after, f"control-plane-changed: from {before} to {after}")


def lose_quorum(scene: Scene) -> None:
    """Kill two ZooKeeper servers: records are acknowledged, metadata does not change until they are back."""
    cluster = ensemble(scene)
    refused, accepted = f"{scene.topic}-refused", f"{scene.topic}-accepted"
    before = control_plane(scene)
    with timed(scene, "quorum of ZooKeeper lost"):
        with cluster.servers_killed(2, 3):
            time.sleep(BEYOND_SESSION_SECONDS)
            assert not cluster.has_quorum
            with pytest.raises(KafkaException, match="no connection to ZooKeeper"):
                create_topic(scene, refused)
            scene.wait_for_progress()
        scene.wait_for_progress()
        cluster.wait_until(lambda: cluster.controller() in BROKERS, "a controller must be there")
        create_topic(scene, accepted)
        cluster.wait_until_in_sync([accepted])
    after = control_plane(scene)
    scene.report.outcomes["sessions kept without a quorum"] = sum(map(operator.eq, before[0], after[0]))
    scene.report.outcomes["refused topics created later"] = len(cluster.znodes.topic(refused)) > 0


def ensemble(scene: Scene) -> EnsembleCluster:
    assert isinstance(scene.cluster, EnsembleCluster)
    return scene.cluster


def control_plane(scene: Scene) -> tuple[list[int | None], int, list[tuple[int, int]]]:
    """Return broker epochs, the controller, and leaders with their epochs."""
    znodes = scene.cluster.znodes
    states = [znodes.partition_state(scene.topic, number) for number in range(PARTITIONS)]
    leaders = [(state["leader"], state["leader_epoch"]) for state in states]
    return [znodes.broker_epoch(broker) for broker in BROKERS], znodes.controller(), leaders


def create_topic(scene: Scene, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": scene.cluster.bootstrap, "log_level": 2})
    topic = NewTopic(name, len(SPREAD), replica_assignment=SPREAD)
    (future,) = admin.create_topics([topic], request_timeout=REQUEST_SECONDS_MAX).values()
    future.result()


# Versions.


def change_version(scene: Scene, source: Path, name: str) -> None:
    """Restart one broker after the other with the code of a folder."""
    cluster = operated(scene)
    for broker in BROKERS:
        with timed(scene, name):
            cluster.stop(broker)
            cluster.sources[broker] = source
            cluster.start(broker)
            assert cluster.runs(broker, source)
            cluster.wait_until_in_sync()
            scene.wait_for_progress()
