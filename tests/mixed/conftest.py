"""A mixed cluster for all tests; each has topics of its own, and leaves all brokers running."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.mixed.mixed_cluster import KAFKA, OURS, MixedCluster
from tests.support.apache_kafka import fetched_jars
from tests.support.interbroker.clients import Clients

KAFKA_VERSION = "3.9.1"


@pytest.fixture(scope="session")
def running_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    cluster = MixedCluster(fetched_jars(KAFKA_VERSION), tmp_path_factory.mktemp("mixed"))
    try:
        for broker in (*KAFKA, OURS):
            cluster.start(broker)
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def cluster(running_cluster: MixedCluster) -> MixedCluster:
    running_cluster.start_missing()
    return running_cluster


@pytest.fixture
def clients(cluster: MixedCluster) -> Clients:
    return Clients(cluster.bootstrap)
