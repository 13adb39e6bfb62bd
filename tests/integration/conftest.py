"""Fixtures of a real broker process and a real ZooKeeper server."""

from tests.support.fixtures import bootstrap, broker, pytest_runtest_makereport, start_broker, topic
from tests.support.zookeeper import zookeeper

__all__ = ["bootstrap", "broker", "pytest_runtest_makereport", "start_broker", "topic", "zookeeper"]
