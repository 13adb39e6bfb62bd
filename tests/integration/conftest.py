"""The broker fixtures, shared by all folders that talk to a real process."""

from tests.support.fixtures import bootstrap, broker, pytest_runtest_makereport, start_broker, topic

__all__ = ["bootstrap", "broker", "pytest_runtest_makereport", "start_broker", "topic"]
