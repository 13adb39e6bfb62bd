"""Each kind of broker in each role, under load: nothing is lost, and roles move and come back.

All clients run at once, and every broker leads, follows and coordinates some of them. A test has a broker of
one kind as the controller and performs an operation, which counts for all roles that are checked before it
and after it. Both kinds of controller take part, whichever a run has otherwise.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
from tests.mixed.harness.coordinators import OFFSETS, TRANSACTIONS
from tests.mixed.harness.load import compare, read_values
from tests.mixed.harness.mixed_cluster import BROKERS, MixedCluster
from tests.mixed.harness.run_choice import KAFKA, OURS, others_than
from tests.mixed.harness.tally import TALLY
from tests.mixed.roles.role_matrix import MATRIX, Operation
from tests.mixed.roles.stage import Stage
from tests.mixed.workload.workload import Workload
from tests.support.interbroker.clients import Clients

RECORDS_PER_STEP = 100
PARTITIONS = range(3)
NUMBERS = itertools.count()
pytestmark = pytest.mark.timeout(900)
Targets = dict[tuple[str, int], list[int]]
"""Replicas of each partition, by topic and number."""
VICTIMS = pytest.mark.parametrize("victim", [OURS, KAFKA], ids=["ours", "kafka"])


@pytest.fixture(params=[OURS, KAFKA], ids=["our-controller", "kafka-controller"])
def stage(request: pytest.FixtureRequest, cluster: MixedCluster, clients: Clients) -> Iterator[Stage]:
    controller: int = request.param
    cluster.elect_controller(controller)
    with Workload(cluster, clients, f"roles-{next(NUMBERS)}") as workload:
        workload.spread_leaders()
        workload.make_progress(RECORDS_PER_STEP)
        stage = Stage(cluster, workload, controller)
        stage.check_roles()
        yield stage


def restore_roles(stage: Stage) -> None:
    """Give all brokers their roles back, go on under load, and check roles and everything written."""
    stage.workload.spread_leaders()
    stage.cluster.elect_controller(stage.controller)
    stage.workload.make_progress(RECORDS_PER_STEP)
    stage.check_roles()
    with stage.workload.quiet():
        stage.workload.check()
    TALLY.acknowledged += stage.workload.figures.acknowledged


def consume(stage: Stage) -> None:
    """Check that consumers find what was acknowledged so far, while more is written."""
    for partition in PARTITIONS:
        acknowledged = {load.prefix: list(load.acknowledged[partition]) for load in stage.workload.loads}
        end = stage.workload.high_watermark(partition)
        values = read_values(stage.cluster.bootstrap, stage.workload.records, partition, end)
        for prefix, expected in acknowledged.items():
            difference = compare(expected, [value for value in values if value.startswith(prefix)])
            assert difference._replace(unknown=0) == (0, 0, 0, 0), f"{prefix!r} in {partition}: {difference}"


def rebalance(stage: Stage) -> None:
    """Replace the members of all groups, and wait until the groups have committed more."""
    for reader in stage.workload.readers:
        before = dict(reader.journal.committed)
        reader.replace_member()
        committed = reader.journal.committed
        stage.cluster.wait_until(partial(has_committed_more, committed, before))


def has_committed_more(committed: Mapping[int, int], before: Mapping[int, int]) -> bool:
    return all(committed[partition] > before[partition] for partition in PARTITIONS)


def test_clients_make_progress(stage: Stage) -> None:
    steps: dict[Operation, Callable[[], None]] = {
        Operation.PRODUCE: lambda: stage.workload.make_progress(RECORDS_PER_STEP),
        Operation.CONSUME: lambda: consume(stage),
        Operation.GROUPS: lambda: rebalance(stage),
        Operation.TRANSACTIONS: lambda: stage.workload.make_progress(1),
    }
    with MATRIX.attempt(stage.cells(*steps)):
        for step in steps.values():
            step()
            stage.check_roles()
        restore_roles(stage)


def move_all(stage: Stage, clients: Clients, targets: Targets) -> None:
    """Reassign partitions, and wait until replicas that are no longer assigned are gone."""
    cluster = stage.cluster
    for (topic, number), replicas in targets.items():
        clients.reassign(cluster.specs[stage.controller].port, topic, number, replicas)
    for (topic, number), replicas in targets.items():
        cluster.wait_for_partition(topic, number, isr=replicas)
        for broker in others_than(*replicas):
            path = cluster.replica_path(broker, topic, number)
            cluster.wait_until(partial(is_gone, path))


def is_gone(path: Path) -> bool:
    return not path.exists()


def test_replicas_are_reassigned(stage: Stage, clients: Clients) -> None:
    """The leader of each partition loses its replica and gets it back; for one topic, a follower does."""
    workload, znodes = stage.workload, stage.cluster.znodes
    topics = (workload.records, workload.payments, OFFSETS, TRANSACTIONS)
    origin: Targets = {
        (topic, int(number)): replicas
        for topic in topics
        for number, replicas in znodes.topic(topic)["partitions"].items()
    }
    target: Targets = {
        (topic, number): replicas[:-1] if topic == workload.payments else replicas[1:]
        for (topic, number), replicas in origin.items()
    }
    with MATRIX.attempt(stage.cells(Operation.REASSIGNMENT)):
        for targets in (target, origin):
            move_all(stage, clients, targets)
            workload.make_progress(RECORDS_PER_STEP)
            assert znodes.controller() == stage.controller
        restore_roles(stage)


def test_brokers_are_restarted_one_by_one(stage: Stage) -> None:
    cluster, workload = stage.cluster, stage.workload
    with MATRIX.attempt(stage.cells(Operation.ROLLING_RESTART)):
        for broker in BROKERS:
            assert broker in stage.leaders()
            cluster.stop(broker)
            cluster.wait_for_partition(workload.records, broker, isr=others_than(broker))
            workload.make_progress(RECORDS_PER_STEP)
            stage.check_without_roles(broker)
            cluster.start(broker)
            workload.spread_leaders()
        restore_roles(stage)


@VICTIMS
def test_broker_is_killed(stage: Stage, victim: int) -> None:
    cluster, workload = stage.cluster, stage.workload
    with MATRIX.attempt(stage.cells(Operation.KILL, brokers=[victim])):
        cluster.kill(victim)
        for topic in workload.topics:
            for partition in PARTITIONS:
                cluster.wait_for_partition(topic, partition, isr=others_than(victim))
        workload.make_progress(RECORDS_PER_STEP)
        stage.check_without_roles(victim)
        cluster.start(victim)
        restore_roles(stage)
