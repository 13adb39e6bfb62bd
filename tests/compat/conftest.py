"""Fixtures of the compatibility tests: clients under test, and their broker.

Every client is created once per session and kept, as applications do; a test with ``client`` runs once with
once with each.
"""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.compat.clients.aiokafka import Aiokafka
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.interface import Client
from tests.compat.clients.kafka_python import KafkaPython
from tests.compat.clients.odradek import OdradekAsyncio, OdradekBlocking
from tests.compat.clients.settled import settle
from tests.compat.cluster_selection import is_quick, skip_reason
from tests.support.fixtures import (
    bootstrap,
    broker,
    pytest_runtest_makereport,
    restarted_cluster,
    start_broker,
    topic,
)
from tests.support.shared_cluster import ClusterPlugin

__all__ = [
    "bootstrap",
    "broker",
    "pytest_runtest_makereport",
    "restarted_cluster",
    "start_broker",
    "topic",
]

LEFT_SOCKETS = "ignore:unclosed <socket:ResourceWarning"
"""kafka-python leaves the socket of a failed connection to the garbage collector, which then warns."""

collect_ignore = [] if os.environ.get("ODRADEK_SPARK_JVM") else ["test_spark_jvm_connector.py"]
"""Its jars come from Maven Central, which no other test here needs: `make spark-jvm-connector`."""

CLIENT_FACTORIES: dict[str, Callable[[str], Client]] = {
    made.name: made for made in (Confluent, KafkaPython, Aiokafka, OdradekBlocking, OdradekAsyncio)
}


class Clients(dict[str, Client]):
    """Clients of one broker by name, created on first use."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self._bootstrap = bootstrap

    def __missing__(self, name: str) -> Client:
        self[name] = settle(CLIENT_FACTORIES[name](self._bootstrap), self._bootstrap)
        return self[name]

    def close(self) -> None:
        """Close all created clients."""
        for client in self.values():
            client.close()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cluster", type=int, metavar="BROKERS", help="run the tests on a cluster")
    parser.addoption("--quick", action="store_true", help="only the tests that CI runs on a cluster")


def pytest_configure(config: pytest.Config) -> None:
    """Run a cluster for the session; workers of xdist use that of the main process."""
    brokers = config.getoption("--cluster")
    if brokers is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(ClusterPlugin(brokers))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Ignore sockets that third-party clients leave open; select the tests for a cluster."""
    for item in [item for item in items if Path(__file__).parent in item.path.parents]:
        item.add_marker(pytest.mark.filterwarnings(LEFT_SOCKETS))
        if config.getoption("--cluster") is not None and (reason := skip_reason(item.nodeid)):
            item.add_marker(pytest.mark.skip(reason=f"one broker: {reason}"))
        if config.getoption("--quick") and not is_quick(item.nodeid):
            items.remove(item)


@pytest.fixture(autouse=True, scope="session")
def collect_what_clients_left() -> Iterator[None]:
    """Collect the sockets that clients left open while their warnings are ignored."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        for _ in range(3):
            gc.collect()


@pytest.fixture(scope="session")
def clients(bootstrap: str) -> Iterator[Clients]:
    """All clients of the shared broker."""
    made = Clients(bootstrap)
    yield made
    made.close()


@pytest.fixture(scope="session")
def min_in_sync(bootstrap: str) -> str:
    """Default of min.insync.replicas: 2 in a cluster."""
    return "2" if "," in bootstrap else "1"


@pytest.fixture(params=sorted(CLIENT_FACTORIES))
def client(request: pytest.FixtureRequest, clients: Clients) -> Client:
    """Each client in turn."""
    return clients[request.param]


@pytest.fixture(params=sorted(CLIENT_FACTORIES))
def make_client(request: pytest.FixtureRequest) -> Callable[[str], Client]:
    """Each client in turn, for the test's own broker; the test closes the clients it creates."""
    make = CLIENT_FACTORIES[request.param]
    return lambda bootstrap: settle(make(bootstrap), bootstrap)
