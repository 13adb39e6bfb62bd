"""Servers of a ZooKeeper ensemble killed under load: one changes nothing, two stop only metadata changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster_faults.conftest import Play
from tests.cluster_faults.harness.fault_cluster import BROKERS, FaultCluster
from tests.cluster_operations.harness import operations
from tests.cluster_operations.harness.operated_cluster import EnsembleCluster

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[FaultCluster]:
    cluster = EnsembleCluster(tmp_path / "cluster")
    try:
        cluster.start(*BROKERS)
        yield cluster
    finally:
        cluster.close()


def test_one_server_of_three_is_lost(play: Play) -> None:
    play(operations.lose_server)


def test_quorum_is_lost_and_regained(play: Play) -> None:
    play(operations.lose_quorum)
