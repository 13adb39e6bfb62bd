"""Fixtures for client tests against a real broker: Odradek, or any that ``tests.support.broker`` starts."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from tests.clients.client_apis import AsyncioClients, BlockingClients, Clients
from tests.support.fixtures import bootstrap, broker, pytest_runtest_makereport, start_broker, topic

__all__ = ["bootstrap", "broker", "pytest_runtest_makereport", "start_broker", "topic"]


@pytest.fixture(params=[BlockingClients, AsyncioClients], ids=["blocking", "asyncio"])
def clients(request: pytest.FixtureRequest) -> Iterator[Clients]:
    """Blocking and asyncio clients in turn; all are closed after the test, and must leave no thread."""
    before = set(threading.enumerate())
    clients: Clients = request.param()
    yield clients
    clients.close()
    leaked = [thread.name for thread in set(threading.enumerate()) - before if thread.is_alive()]
    assert not leaked, f"leaked threads: {leaked}"
