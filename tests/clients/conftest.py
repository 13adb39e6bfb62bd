"""Our clients against a real broker: ours, or any other that ``tests.support.broker`` can start."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from tests.clients.client_apis import AsyncioClients, BlockingClients, Clients
from tests.support.fixtures import bootstrap, broker, pytest_runtest_makereport, start_broker, topic

__all__ = ["bootstrap", "broker", "pytest_runtest_makereport", "start_broker", "topic"]


@pytest.fixture(params=[BlockingClients, AsyncioClients], ids=["blocking", "asyncio"])
def clients(request: pytest.FixtureRequest) -> Iterator[Clients]:
    """Both worlds in turn; whatever a test made is closed after it, and leaves no thread behind."""
    before = set(threading.enumerate())
    made: Clients = request.param()
    yield made
    made.close()
    left = [one.name for one in set(threading.enumerate()) - before if one.is_alive()]
    assert not left, f"threads left behind: {left}"
