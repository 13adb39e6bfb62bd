"""The clients under test, and the broker they talk to.

Every client is made once per session and kept, as programs keep theirs; a test asks for ``client`` and runs
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
from tests.support.fixtures import bootstrap, broker, pytest_runtest_makereport, start_broker, topic

__all__ = ["bootstrap", "broker", "pytest_runtest_makereport", "start_broker", "topic"]

LEFT_SOCKETS = "ignore:unclosed <socket:ResourceWarning"
"""kafka-python leaves the socket of a failed connection to the garbage collector, which then warns."""

collect_ignore = [] if os.environ.get("ODRADEK_SPARK_JVM") else ["test_spark_jvm_connector.py"]
"""Spark's connector comes from Maven Central, which no other test needs: `make spark-jvm-connector`."""

MAKERS: dict[str, Callable[[str], Client]] = {
    made.name: made for made in (Confluent, KafkaPython, Aiokafka, OdradekBlocking, OdradekAsyncio)
}


class Clients(dict[str, Client]):
    """Clients of one broker by name, made when first asked for."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self._bootstrap = bootstrap

    def __missing__(self, name: str) -> Client:
        self[name] = MAKERS[name](self._bootstrap)
        return self[name]

    def close(self) -> None:
        """Close those that were made."""
        for client in self.values():
            client.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let no test of this folder fail for what a client leaves behind."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(LEFT_SOCKETS))


@pytest.fixture(autouse=True, scope="session")
def collect_what_clients_left() -> Iterator[None]:
    """Let the collector find the sockets clients left behind while their warnings are still expected."""
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


@pytest.fixture(params=sorted(MAKERS))
def client(request: pytest.FixtureRequest, clients: Clients) -> Client:
    """Each client in turn."""
    return clients[request.param]


@pytest.fixture(params=sorted(MAKERS))
def make_client(request: pytest.FixtureRequest) -> Callable[[str], Client]:
    """Each client in turn, for a broker of the test's own; the test closes what it makes."""
    return MAKERS[request.param]
