"""Who is asked: any broker, the controller, a partition's leader, a coordinator."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final

from odradek.net.connection_state import NodeStatus

ANY_NODE: Final = -(2**31)
"""Whoever has least to do."""

CONTROLLER: Final = -(2**31) + 1
"""The broker that answers for the cluster."""

_FIRST_BOOTSTRAP: Final = -2
_LAST_ALIAS: Final = 2**31 - 1


class CoordinatorType(enum.IntEnum):
    """What is coordinated; the numbers are the protocol's."""

    GROUP = 0
    TRANSACTION = 1


def bootstrap_id(index: int) -> int:
    """The id of an address of ``bootstrap.servers``, before the broker there has told its own."""
    return _FIRST_BOOTSTRAP - index


def group_connection_id(node_id: int) -> int:
    """A second connection to a broker, for its work as coordinator of a group.

    Answers of one connection come in order: a heartbeat must not wait behind a fetch that waits for records.
    """
    return _LAST_ALIAS - node_id


def least_loaded_node(standings: Sequence[NodeStatus], first: int, now_ms: int) -> int | None:
    """The node to ask when any will do; ``first`` is where the search begins, so that clients differ.

    Best is one that is ready, with as little under way as can be; then one that is being connected; then the
    one not tried for longest among those that may be tried now; then the one that may be tried next.
    """
    if not standings:
        return None
    turned = [standings[(first + index) % len(standings)] for index in range(len(standings))]
    ready = [one for one in turned if one.is_ready]
    if ready:
        return min(ready, key=lambda one: one.in_flight).id
    dialling = [one for one in turned if one.is_connecting and not one.failures]
    if dialling:
        return dialling[0].id
    free = [one for one in turned if one.retry_at_ms <= now_ms]
    if free:
        return min(free, key=lambda one: one.last_attempt_ms).id
    return min(turned, key=lambda one: one.retry_at_ms).id
