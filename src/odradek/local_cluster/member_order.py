"""The order in which members start and stop. Pure.

ZooKeeper starts first and stops last. The controller is the last broker to stop: it moves the leaderships of
the others, and no other broker has to become controller meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.local_cluster.cluster_spec import ZOOKEEPER, broker_name

Batches = list[list[str]]
"""Members that start or stop together, in order."""


def start_batches(missing: Iterable[str]) -> Batches:
    """Return the members to start."""
    names = list(missing)
    return _without_empty([[ZOOKEEPER] if ZOOKEEPER in names else [], _brokers(names)])


def stop_batches(running: Iterable[str], controller: int | None) -> Batches:
    """Return the members to stop."""
    names = list(running)
    last = [name for name in _brokers(names) if controller is not None and name == broker_name(controller)]
    first = [name for name in _brokers(names) if name not in last]
    return _without_empty([first, last, [ZOOKEEPER] if ZOOKEEPER in names else []])


def _brokers(names: list[str]) -> list[str]:
    return [name for name in names if name != ZOOKEEPER]


def _without_empty(batches: Batches) -> Batches:
    return [batch for batch in batches if batch]
