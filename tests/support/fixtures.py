"""Fixtures of broker processes."""

from __future__ import annotations

import itertools
import time
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.broker import FOREIGN_BOOTSTRAP, Broker, ExternalBroker, SessionBroker


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
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionBroker]:
    """The broker shared by most tests, with default settings."""
    if FOREIGN_BOOTSTRAP is not None:
        yield ExternalBroker(FOREIGN_BOOTSTRAP)
        return
    started = Broker(tmp_path_factory.mktemp("broker")).start()
    yield started
    started.stop()


@pytest.fixture(scope="session")
def bootstrap(broker: SessionBroker) -> str:
    """host:port of the shared broker."""
    return broker.bootstrap


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[StartBroker]:
    """Start brokers with a test's settings; they are stopped at the end of the test."""
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
        if isinstance(used, Broker):
            report.sections.append(("end of the shared broker's output", used.output()))
        for started_broker in getattr(item.funcargs.get("start_broker"), "started", []):
            report.sections.append(
                (f"end of the output of the broker on {started_broker.port}", started_broker.output())
            )
    return report
