"""Our clients against a real broker: ours, or any other that ``tests.support.broker`` can start."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from tests.clients.worlds import Asyncio, Blocking, World
from tests.support.fixtures import bootstrap, broker, pytest_runtest_makereport, start_broker, topic

__all__ = ["bootstrap", "broker", "pytest_runtest_makereport", "start_broker", "topic"]


@pytest.fixture(params=[Blocking, Asyncio], ids=["blocking", "asyncio"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """Both worlds in turn; whatever a test made is closed after it, and leaves no thread behind."""
    before = set(threading.enumerate())
    made: World = request.param()
    yield made
    made.close()
    left = [one.name for one in set(threading.enumerate()) - before if one.is_alive()]
    assert not left, f"threads left behind: {left}"
