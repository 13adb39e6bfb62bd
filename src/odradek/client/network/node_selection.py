"""Node ids of request destinations, and the choice of a node for requests that any broker can serve."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final

from odradek.net.connection_state import NodeStatus

ANY_NODE: Final = -(2**31)
"""The least loaded node."""

CONTROLLER: Final = -(2**31) + 1
"""The controller, as named by the metadata."""

_FIRST_BOOTSTRAP: Final = -2
_LAST_ALIAS: Final = 2**31 - 1


class CoordinatorType(enum.IntEnum):
    """Key types of FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1


def bootstrap_id(index: int) -> int:
    """Return the node id of a ``bootstrap.servers`` address, used until the broker's own id is known."""
    return _FIRST_BOOTSTRAP - index


def group_connection_id(node_id: int) -> int:
    """Return the id of a second connection to a broker, used for group coordinator requests.

    Responses of one connection come in order: a heartbeat must not wait behind a fetch waiting for records.
    """
    return _LAST_ALIAS - node_id


def least_loaded_node(nodes: Sequence[NodeStatus], first: int, now_ms: int) -> int | None:
    """Return the id of the least loaded node. The search starts at index ``first``, to spread clients.

    Preference: a ready node with the fewest requests in flight; a connecting node; the least recently tried
    node that is not in backoff; the node whose backoff ends first.
    """
    if not nodes:
        return None
    rotated = [nodes[(first + index) % len(nodes)] for index in range(len(nodes))]
    ready = [node for node in rotated if node.is_ready]
    if ready:
        return min(ready, key=lambda node: node.in_flight).id
    connecting = [node for node in rotated if node.is_connecting and not node.failures]
    if connecting:
        return connecting[0].id
    eligible = [node for node in rotated if node.retry_at_ms <= now_ms]
    if eligible:
        return min(eligible, key=lambda node: node.last_attempt_ms).id
    return min(rotated, key=lambda node: node.retry_at_ms).id
