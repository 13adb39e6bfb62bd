"""One of a broker's log directories fails under load, heals, and is taken away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.mixed.harness.failing_disks import Disk, FailingFileSystem, VanishingDirectory
from tests.mixed.harness.load import Load, check_load
from tests.mixed.harness.log_files import check_replicas_equal
from tests.mixed.harness.mixed_cluster import BROKERS, MixedCluster
from tests.mixed.harness.run_choice import KAFKA, OURS, needs, others_than
from tests.support.interbroker.clients import Clients

RECORDS_BETWEEN_FAULTS = 200
SPREAD = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
SMALL_SEGMENTS = {"segment.bytes": "16384"}
"""The next segment of a log is soon due, which a directory that vanished cannot have."""
VICTIMS = [pytest.param(OURS, id="ours"), pytest.param(KAFKA, id="kafka", marks=needs("our code"))]
NEEDS_ROOT = pytest.mark.skipif(not FailingFileSystem.is_available(), reason="needs root and loop devices")


@pytest.fixture(params=VICTIMS)
def victim(request: pytest.FixtureRequest) -> int:
    """The broker with a failing directory."""
    broker: int = request.param
    return broker


@pytest.fixture(
    params=[VanishingDirectory, pytest.param(FailingFileSystem, marks=NEEDS_ROOT)],
    ids=["vanishes", "input-output-errors"],
)
def disk(
    request: pytest.FixtureRequest, cluster: MixedCluster, tmp_path: Path, victim: int
) -> Iterator[Disk]:
    """A second log directory of the broker, which runs without it afterwards."""
    make: Callable[[Path], Disk] = request.param
    made = make(tmp_path)
    yield made
    if victim in cluster.running:
        cluster.stop(victim)
    if made.path in cluster.specs[victim].log_dirs:
        cluster.specs[victim].log_dirs.remove(made.path)
    made.remove()


def create(cluster: MixedCluster, clients: Clients, topic: str) -> None:
    clients.create_topic(topic, SPREAD, SMALL_SEGMENTS)
    for partition, leader in enumerate(BROKERS):
        cluster.wait_for_partition(topic, partition, leader=leader)


def wait_for_full_isrs(cluster: MixedCluster, topic: str) -> None:
    for partition in range(3):
        cluster.wait_for_partition(topic, partition)


@pytest.mark.timeout(900)
def test_leaders_move_from_a_failed_directory_and_others_stay(
    cluster: MixedCluster, clients: Clients, disk: Disk, victim: int
) -> None:
    suffix = f"{type(disk).__name__}-{victim}"
    healthy, failing = f"healthy-{suffix}", f"failing-{suffix}"
    others = others_than(victim)
    create(cluster, clients, healthy)
    cluster.stop(victim)
    cluster.specs[victim].log_dirs.append(disk.path)
    cluster.start(victim)
    create(cluster, clients, failing)  # in the directory with the fewest logs
    assert cluster.replica_path(victim, failing, victim).parent == disk.path
    wait_for_full_isrs(cluster, healthy)
    clients.elect_preferred([(healthy, victim)])
    cluster.wait_for_partition(healthy, victim, leader=victim)
    epoch = cluster.znodes.broker_epoch(victim)
    with Load(cluster, healthy, range(3)) as healthy_load, Load(cluster, failing, range(3)) as load:
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        disk.fail()
        for partition in range(3):
            cluster.wait_for_partition(failing, partition, isr=others)
        cluster.wait_until(
            lambda: cluster.metadata(0, failing).partitions[failing, victim].offline == (victim,)
        )
        cluster.wait_for_partition(healthy, victim, leader=victim)
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        healthy_load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        wait_for_full_isrs(cluster, healthy)
        assert cluster.znodes.broker_epoch(victim) == epoch, "the broker stays"

        cluster.stop(victim)
        disk.heal()
        cluster.start(victim)
        wait_for_full_isrs(cluster, failing)
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
        clients.elect_preferred([(failing, victim)])
        cluster.wait_for_partition(failing, victim, leader=victim)
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)

        # The disk is taken away: its replicas are copied again, to the other directory.
        cluster.stop(victim)
        cluster.specs[victim].log_dirs.remove(disk.path)
        cluster.start(victim)
        wait_for_full_isrs(cluster, failing)
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)
    for checked in (load, healthy_load):
        check_load(cluster, checked)
        check_replicas_equal(cluster, checked.topic, range(3))
