"""A mixed cluster for all tests; each has topics of its own, and leaves all brokers running."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.mixed.harness.kafka_tools import fetched_classpath
from tests.mixed.harness.mixed_cluster import MixedCluster
from tests.mixed.harness.run_choice import CONTROLLER_KIND, SHAPE, describe
from tests.mixed.harness.tally import TALLY
from tests.mixed.roles.role_matrix import MATRIX
from tests.support.interbroker.clients import Clients

KAFKA_VERSION = "3.9.1"


@pytest.fixture(scope="session")
def classpath() -> str:
    return fetched_classpath(KAFKA_VERSION)


@pytest.fixture(scope="session")
def running_cluster(classpath: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    cluster = MixedCluster(classpath, tmp_path_factory.mktemp("mixed"), SHAPE, CONTROLLER_KIND)
    try:
        cluster.start_all()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def cluster(running_cluster: MixedCluster) -> MixedCluster:
    running_cluster.restore(CONTROLLER_KIND)
    return running_cluster


@pytest.fixture
def clients(cluster: MixedCluster) -> Clients:
    return Clients(cluster.bootstrap)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(f"mixed cluster {describe()}: {TALLY.describe()}")
    if MATRIX.has_results:
        for line in MATRIX.describe():
            terminalreporter.write_line(line)
