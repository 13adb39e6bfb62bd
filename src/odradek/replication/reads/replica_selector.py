"""Selection of the replica that a consumer reads (KIP-392, ``replica.selector.class``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple


class ReplicaView(NamedTuple):
    """A replica that has the offset a consumer asks for. ``rack`` is None if its broker is not reachable."""

    broker_id: int
    rack: str | None
    log_end_offset: int
    caught_up_ms: int
    """Time at which it last had the leader's whole log."""


ReplicaSelector = Callable[[str | None, ReplicaView, Sequence[ReplicaView]], ReplicaView]
"""Return the replica for a client's rack, from the leader and its readable followers."""


def select_by_rack(
    client_rack: str | None, leader: ReplicaView, followers: Sequence[ReplicaView]
) -> ReplicaView:
    """Return the leader if it is in the client's rack, else the follower there with the most records."""
    in_rack = [follower for follower in followers if client_rack and follower.rack == client_rack]
    if not in_rack or leader.rack == client_rack:
        return leader
    return max(
        in_rack, key=lambda follower: (follower.log_end_offset, follower.caught_up_ms, follower.broker_id)
    )


def select_leader(
    client_rack: str | None, leader: ReplicaView, followers: Sequence[ReplicaView]
) -> ReplicaView:
    return leader


SELECTORS: Final[dict[str, ReplicaSelector]] = {
    "org.apache.kafka.common.replica.LeaderSelector": select_leader,
    "org.apache.kafka.common.replica.RackAwareReplicaSelector": select_by_rack,
}
"""Kafka's selectors by their class names."""


def selector_for(class_name: str | None) -> ReplicaSelector | None:
    """Return the selector for ``replica.selector.class``; None stands for the leader."""
    return SELECTORS[class_name] if class_name else None
