"""Fixtures of the contract tests."""

from tests.support.zookeeper import zookeeper

__all__ = ["zookeeper"]
