"""A rolling upgrade from an earlier commit to this one under load, and back."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest
from tests.cluster_faults.conftest import REPORTS, Play
from tests.cluster_faults.harness.fault_cluster import BROKERS
from tests.cluster_operations.harness import earlier_version
from tests.cluster_operations.harness.operated_cluster import OperatedCluster
from tests.cluster_operations.harness.operations import change_version

pytestmark = pytest.mark.timeout(300)
COMMIT = os.environ.get("ODRADEK_UPGRADE_FROM") or "HEAD~60"


def test_rolling_upgrade_and_back(cluster: OperatedCluster, play: Play, tmp_path: Path) -> None:
    source = earlier_version.check_out(COMMIT, tmp_path / "earlier")
    for broker in BROKERS:
        cluster.stop(broker)
        cluster.sources[broker] = source
    cluster.start(*BROKERS)
    assert all(cluster.runs(broker, source) for broker in BROKERS)
    play(
        partial(change_version, source=earlier_version.OURS, name="upgraded"),
        partial(change_version, source=source, name="downgraded"),
    )
    REPORTS.append(f"earlier version: {earlier_version.describe(COMMIT)}")
