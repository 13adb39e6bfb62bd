"""A cluster of our brokers in place of one broker: ``pytest tests/compat --cluster 3``.

The main process of a test session starts the cluster and stops it at the end; workers of xdist use the same
one. Tests that end brokers have a second cluster, one per worker, so that others do not notice.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.support.kio_requests import topic_leaders
from tests.support.local_cluster import LocalCluster

DIRECTORY_VARIABLE = "ODRADEK_TEST_CLUSTER"
"""The directory of the shared cluster; the main process sets it for its workers."""
LOG_LINES_SHOWN = "20"
SETTINGS = {
    "log.retention.ms": "-1",  # tests write records with old timestamps
    "zookeeper.session.timeout.ms": "3000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}


class SharedCluster:
    """Brokers that tests use and leave running."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        addresses = {int(each["broker"]): str(each["address"]) for each in cluster.status()["brokers"]}
        self.addresses = addresses
        self.bootstrap = ",".join(addresses.values())
        self.port = int(self.bootstrap.rpartition(":")[2])

    def output(self) -> str:
        """Return the ends of the brokers' logs."""
        return self.cluster.run("logs", "--lines", LOG_LINES_SHOWN)


class TopicLeader(SharedCluster):
    """The leader of a topic's first partition, ended and started in place of a single broker."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        super().__init__(cluster)
        self._topic = topic
        self._ended: int | None = None

    def stop(self) -> None:
        """Stop the leader by controlled shutdown."""
        self._end("stop")

    def kill(self) -> None:
        """Kill the leader with SIGKILL."""
        self._end("kill")

    def start(self) -> None:
        """Start the ended broker, and wait until it is registered."""
        assert self._ended is not None
        self.cluster.run("start", str(self._ended))
        self._ended = None

    def restore(self) -> None:
        """Start what a failed test left ended, and wait until all replicas are in sync."""
        if self._ended is not None:
            self.start()
        self.cluster.run("wait")

    def _end(self, command: str) -> None:
        self.cluster.run("wait")
        leaders = topic_leaders(self.addresses[min(self.addresses)], self._topic)
        assert leaders is not None, f"{self._topic} must exist"
        self.cluster.run(command, str(leaders[0]))
        self._ended = leaders[0]


class StartTopicLeader:
    """Gives a test the leader of its topic, in place of a broker of its own."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        self._leader = TopicLeader(cluster, topic)
        self.started = [self._leader]

    def __call__(self, settings: Mapping[str, str] | None = None) -> TopicLeader:
        other = {name: value for name, value in (settings or {}).items() if SETTINGS.get(name) != value}
        assert not other, f"settings of the cluster's brokers are {SETTINGS}, got also {other}"
        return self._leader

    def restore(self) -> None:
        """Bring the cluster back to all replicas in sync."""
        self._leader.restore()


def shared_cluster() -> SharedCluster | None:
    """Return the cluster of the session, if it has one."""
    directory = os.environ.get(DIRECTORY_VARIABLE)
    return None if directory is None else SharedCluster(LocalCluster(Path(directory)))


def start_cluster(directory: Path, brokers: int) -> LocalCluster:
    """Start a cluster with the settings of tests."""
    cluster = LocalCluster(directory)
    settings = [part for name, value in SETTINGS.items() for part in ("--set", f"{name}={value}")]
    cluster.run("up", "--brokers", str(brokers), "--detach", *settings)
    return cluster


class ClusterPlugin:
    """Runs the shared cluster for the main process of a session."""

    def __init__(self, brokers: int) -> None:
        self._home = TemporaryDirectory(prefix="odradek-tests-")
        self._brokers = brokers
        self._cluster: LocalCluster | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        self._cluster = start_cluster(Path(self._home.name) / "cluster", self._brokers)
        os.environ[DIRECTORY_VARIABLE] = str(self._cluster.directory)

    def pytest_unconfigure(self) -> None:
        if self._cluster is not None:
            self._cluster.run("down", status=None)
        self._home.cleanup()
