"""A cluster of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster_faults.conftest import play, pytest_terminal_summary
from tests.cluster_faults.harness.fault_cluster import BROKERS, FaultCluster
from tests.cluster_operations.harness.operated_cluster import OperatedCluster

__all__ = ["cluster", "play", "pytest_terminal_summary"]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[FaultCluster]:
    cluster = OperatedCluster(tmp_path / "cluster")
    try:
        cluster.start(*BROKERS)
        yield cluster
    finally:
        cluster.close()
