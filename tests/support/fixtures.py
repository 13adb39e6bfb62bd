"""Fixtures of broker processes."""

from __future__ import annotations

import itertools
import time
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.broker import FOREIGN_BOOTSTRAP, Broker, ExternalBroker, SessionBroker
from tests.support.local_cluster import LocalCluster
from tests.support.shared_cluster import SharedCluster, StartTopicLeader, shared_cluster, start_cluster


class StartBroker:
    """Starts brokers with a test's settings, each in its own directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.started: list[Broker] = []

    def __call__(self, settings: Mapping[str, str] | None = None) -> Broker:
        started_broker = Broker(self._directory / f"broker-{len(self.started)}", settings)
        self.started.append(started_broker)
        return started_broker.start()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionBroker | SharedCluster]:
    """The broker shared by most tests, with default settings; a cluster with ``--cluster``."""
    if (cluster := shared_cluster()) is not None:
        yield cluster
        return
    if FOREIGN_BOOTSTRAP is not None:
        yield ExternalBroker(FOREIGN_BOOTSTRAP)
        return
    started = Broker(tmp_path_factory.mktemp("broker")).start()
    yield started
    started.stop()


@pytest.fixture(scope="session")
def bootstrap(broker: SessionBroker | SharedCluster) -> str:
    """host:port of the shared broker, or of the brokers of the cluster."""
    return broker.bootstrap


@pytest.fixture(scope="session")
def restarted_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster for tests that end brokers, with as many brokers as the shared one."""
    shared = shared_cluster()
    assert shared is not None
    cluster = start_cluster(tmp_path_factory.mktemp("restarted") / "cluster", len(shared.addresses))
    yield cluster
    cluster.run("down", status=None)


@pytest.fixture
def start_broker(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[StartBroker | StartTopicLeader]:
    """Start brokers with a test's settings; they are stopped at the end of the test.

    With ``--cluster``, the broker that a test ends is the leader of its topic.
    """
    if shared_cluster() is not None:
        arguments = request.getfixturevalue("restarted_cluster"), request.getfixturevalue("topic")
        leader = StartTopicLeader(*arguments)
        yield leader
        leader.restore()
        return
    start = StartBroker(tmp_path)
    yield start
    for started_broker in start.started:
        started_broker.stop()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A unique topic name."""
    return new_topic_name(request.node.name)


_serial = itertools.count()
_session = f"{time.time_ns() // 1_000_000:x}"
"""Distinguishes the topics of this run on a long-running broker."""


def new_topic_name(of: str) -> str:
    """Return a legal topic name derived from a test name."""
    legal = "".join(letter if letter.isalnum() or letter in "_-" else "-" for letter in of)
    return f"{legal[:180]}-{_session}-{next(_serial)}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Add the output of the brokers to the report of a failed test."""
    report = yield
    if report.failed and isinstance(item, pytest.Function):
        used = item.funcargs.get("broker")
        if isinstance(used, Broker | SharedCluster):
            report.sections.append(("end of the shared broker's output", used.output()))
        for started_broker in getattr(item.funcargs.get("start_broker"), "started", []):
            report.sections.append(
                (f"end of the output of the broker on {started_broker.port}", started_broker.output())
            )
    return report
