"""One cluster for all tests. Each has a topic of its own, and all replicas are in sync before it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cluster_faults.harness.fault_cluster import BROKERS, FaultCluster
from tests.cluster_faults.harness.networks import Loopback, Namespaces, why_no_loss, why_no_namespaces
from tests.cluster_faults.harness.power_loss import why_no_power_loss
from tests.cluster_faults.harness.proxied_cluster import ProxiedCluster
from tests.cluster_faults.harness.scene import Scene

SEED = int(os.environ.get("ODRADEK_FAULT_SEED", "1912"))
REPORTS: list[str] = []
Play = Callable[..., None]
PlayOn = Callable[..., None]


@pytest.fixture(scope="session")
def running_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultCluster]:
    network = Loopback() if why_no_namespaces() else Namespaces(BROKERS)
    cluster = FaultCluster(tmp_path_factory.mktemp("cluster"), network)
    try:
        cluster.start(*BROKERS)
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def cluster(running_cluster: FaultCluster) -> FaultCluster:
    running_cluster.restore()
    return running_cluster


@pytest.fixture
def cuts(cluster: FaultCluster) -> None:
    """Skip a test unless links between brokers can be cut."""
    if not cluster.network.can_cut:
        pytest.skip(f"cuts links: {why_no_namespaces()}")


@pytest.fixture
def loses(cluster: FaultCluster) -> None:
    """Skip a test unless links can lose packets and be slow."""
    if reason := why_no_loss():
        pytest.skip(f"loses packets: {reason}")


@pytest.fixture(scope="session")
def proxied_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultCluster]:
    cluster = ProxiedCluster(tmp_path_factory.mktemp("proxied"))
    try:
        cluster.start(*BROKERS)
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def play(cluster: FaultCluster, request: pytest.FixtureRequest) -> Play:
    """Play faults under load, one after the other, and check what is left."""
    return _player(cluster, request)


@pytest.fixture
def play_proxied(proxied_cluster: FaultCluster, request: pytest.FixtureRequest) -> Play:
    """The same on a cluster whose requests pass a proxy."""
    proxied_cluster.restore()
    return _player(proxied_cluster, request)


@pytest.fixture
def play_without_power(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[PlayOn]:
    """Play faults on a new cluster whose brokers can lose power."""
    if reason := why_no_power_loss():
        pytest.skip(f"loses power: {reason}")
    clusters: list[FaultCluster] = []

    def run(make_cluster: Callable[[Path], FaultCluster], *faults: Callable[[Scene], None]) -> None:
        cluster = make_cluster(tmp_path / "powered")
        clusters.append(cluster)
        cluster.start(*BROKERS)
        _player(cluster, request)(*faults)

    yield run
    for cluster in clusters:
        cluster.close()


def _player(cluster: FaultCluster, request: pytest.FixtureRequest) -> Play:
    def run(*faults: Callable[[Scene], None]) -> None:
        name = request.node.name.removeprefix("test_")
        topic = "".join(letter if letter.isalnum() else "-" for letter in name).strip("-")
        with Scene(cluster, topic, SEED) as scene:
            for fault in faults:
                fault(scene)
                cluster.restore()
        REPORTS.append(scene.report.text())
        assert scene.report.violations == []

    return run


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in REPORTS:
        terminalreporter.write_line(report)
