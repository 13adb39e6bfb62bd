"""Fixtures of the examples' tests."""

from tests.support.fixtures import bootstrap, broker, pytest_runtest_makereport

__all__ = ["bootstrap", "broker", "pytest_runtest_makereport"]
