"""The broker fixtures of every test folder that talks to a real process."""

from __future__ import annotations

import itertools
import time
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.broker import FOREIGN_BOOTSTRAP, Broker, ExternalBroker, SessionBroker


class StartBroker:
    """Starts brokers with a test's own settings, each in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.started: list[Broker] = []

    def __call__(self, settings: Mapping[str, str] | None = None) -> Broker:
        one = Broker(self._directory / f"broker-{len(self.started)}", settings)
        self.started.append(one)
        return one.start()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionBroker]:
    """The broker most tests share: no settings of its own."""
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
    """Start brokers with a test's own settings; they end with the test, cleanly."""
    start = StartBroker(tmp_path)
    yield start
    for one in start.started:
        one.stop()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name no other test uses."""
    return new_topic_name(request.node.name)


_serial = itertools.count()
_session = f"{time.time_ns() // 1_000_000:x}"
"""Tells the topics of this run from those of earlier ones on a broker that stays."""


def new_topic_name(of: str) -> str:
    """A legal topic name that says which test made it."""
    legal = "".join(letter if letter.isalnum() or letter in "_-" else "-" for letter in of)
    return f"{legal[:180]}-{_session}-{next(_serial)}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """A failed test shows the last words of the brokers it used."""
    report = yield
    if report.failed and isinstance(item, pytest.Function):
        used = item.funcargs.get("broker")
        if isinstance(used, Broker):
            report.sections.append(("end of the shared broker's output", used.output()))
        for one in getattr(item.funcargs.get("start_broker"), "started", []):
            report.sections.append((f"end of the output of the broker on {one.port}", one.output()))
    return report
