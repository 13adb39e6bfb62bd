"""The inter-broker protocol version, rolled up and down on all brokers under load."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.mixed.harness.broker_spec import LATEST_IBP
from tests.mixed.harness.load import Load, check_load
from tests.mixed.harness.log_files import check_replicas_equal
from tests.mixed.harness.mixed_cluster import BROKERS, MixedCluster
from tests.mixed.harness.run_choice import IS_OURS, KAFKA_BROKERS, OUR_BROKERS
from tests.mixed.harness.znodes import shape
from tests.support.interbroker.clients import Clients

RECORDS_BETWEEN_FAULTS = 50
VERSIONS = ("2.8", "3.0", "3.3", "3.4", LATEST_IBP)
SPREAD = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
RECORDINGS = Path(__file__).parents[1] / "golden" / "cluster"


def kind_of(path: str) -> str | None:
    """Return the kind of a znode whose contents depend on the protocol version; None for others."""
    parts = path.strip("/").split("/")
    if parts[0] == "brokers" and len(parts) > 2:
        return "state" if parts[-1] == "state" else f"{parts[1]} {len(parts)}"
    return path if path in ("/feature", "/controller") else None


def recorded_shapes(ibp: str) -> dict[str, set[str]]:
    """Return the shapes of znodes of each kind that a cluster of Kafka had."""
    shapes: dict[str, set[str]] = {}
    for line in (RECORDINGS / ibp / "znodes.txt").read_text().splitlines():
        path, data = line.partition(" ")[0], line.partition(" =")[2]
        kind = kind_of(path)
        if kind is not None and data:
            shapes.setdefault(kind, set()).add(shape(data.encode()))
    return shapes


def check_znodes(cluster: MixedCluster, ibp: str, topic: str) -> None:
    """Check nodes that were written under this version against those of a cluster of Kafka."""
    recorded = recorded_shapes(ibp)
    paths = ["/feature", "/controller", *(f"/brokers/ids/{broker}" for broker in BROKERS)]
    checked = 0
    for root in (*paths, f"/brokers/topics/{topic}"):
        for path, node in cluster.znodes.tree(root).items():
            kind = kind_of(path)
            if kind is not None and node.data:
                assert shape(node.data) in recorded[kind], f"{path} under {ibp}: {node.data!r}"
                checked += 1
    assert checked == len(paths) + 1 + len(SPREAD)


def steps() -> Iterator[str]:
    """Yield the versions up to the latest and back, and the latest again."""
    yield from VERSIONS[1:]
    yield from reversed(VERSIONS[:-1])
    yield LATEST_IBP


def roll(cluster: MixedCluster, ibp: str, topic: str, load: Load) -> None:
    for broker in BROKERS:
        cluster.restart(broker, ibp=ibp)
        for partition in range(3):
            cluster.wait_for_partition(topic, partition)
        load.wait_for_acknowledged(RECORDS_BETWEEN_FAULTS)


@pytest.mark.timeout(2400)
def test_versions_are_rolled_up_and_down_under_load(cluster: MixedCluster, clients: Clients) -> None:
    topic, controllers = "rolled", OUR_BROKERS if IS_OURS else KAFKA_BROKERS
    clients.create_topic(topic, SPREAD)
    for partition, leader in enumerate(BROKERS):
        cluster.wait_for_partition(topic, partition, leader=leader)
    with Load(cluster, topic, range(3)) as load:
        roll(cluster, VERSIONS[0], topic, load)
        for number, ibp in enumerate(steps()):
            roll(cluster, ibp, topic, load)
            clients.elect_preferred([(topic, partition) for partition in range(3)])
            cluster.elect_controller(controllers[number % len(controllers)])
            fresh = f"rolled-{number}-{ibp}"
            clients.create_topic(fresh, SPREAD)
            for partition, leader in enumerate(BROKERS):
                cluster.wait_for_partition(fresh, partition, leader=leader)
            clients.run_transactions(fresh, fresh, 3)
            check_znodes(cluster, ibp, fresh)
            check_replicas_equal(cluster, fresh, range(3))
    check_load(cluster, load)
    check_replicas_equal(cluster, topic, range(3))
