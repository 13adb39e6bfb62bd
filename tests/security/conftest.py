"""Fixtures: one secured broker for all tests of a process."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.secured_broker import SecuredBroker, add_scram_users

from odradek import Admin

LEFT_SOCKETS = "ignore::ResourceWarning"
LEFT_EXCEPTIONS = "ignore::pytest.PytestUnraisableExceptionWarning"
LEFT_THREADS = "ignore::pytest.PytestUnhandledThreadExceptionWarning"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore what other clients leave behind when they are refused: open sockets, failed tasks."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            for ignored in (LEFT_SOCKETS, LEFT_EXCEPTIONS, LEFT_THREADS):
                item.add_marker(pytest.mark.filterwarnings(ignored))


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A broker with listeners for all protocols, and SCRAM credentials of all users."""
    broker = SecuredBroker(tmp_path_factory.mktemp("secured")).start()
    add_scram_users(broker)
    yield broker
    broker.stop()


@pytest.fixture
def topic(secured: SecuredBroker) -> str:
    """A new topic."""
    name = f"topic-{uuid.uuid4()}"
    with Admin(bootstrap_servers=secured.bootstrap("PLAINTEXT")) as admin:
        admin.create_topics([name])
    return name
