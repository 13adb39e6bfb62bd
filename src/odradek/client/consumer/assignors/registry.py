"""Assignors by name, the configured ones, and their common rebalance protocol."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from odradek.client.consumer.assignors.assignor import Assignment, Assignor, Member, RebalanceProtocol
from odradek.client.consumer.assignors.cooperative_sticky import CooperativeStickyAssignor
from odradek.client.consumer.assignors.range import RangeAssignor
from odradek.client.consumer.assignors.round_robin import RoundRobinAssignor
from odradek.client.consumer.assignors.sticky import StickyAssignor
from odradek.model.client_errors import InvalidState
from odradek.model.errors import ConfigError

ASSIGNORS: Final[Mapping[str, Callable[[], Assignor]]] = {
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


def configured_assignors(names: Iterable[str], custom: Sequence[Assignor] = ()) -> tuple[Assignor, ...]:
    """Return the custom assignors, or else those of ``partition.assignment.strategy``, in order."""
    assignors = list(custom)
    if not custom:
        assignors = [_by_name(name) for name in names]
    counts = Counter(assignor.name for assignor in assignors)
    duplicates = sorted(name for name, count in counts.items() if count > 1)
    if duplicates:
        raise ConfigError([f"partition.assignment.strategy: duplicate assignor {', '.join(duplicates)}"])
    if not assignors:
        raise ConfigError(["partition.assignment.strategy: must name at least one assignor"])
    common_protocol(assignors)
    return tuple(assignors)


def common_protocol(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """Return COOPERATIVE if all support it: a group can then be migrated by a rolling restart."""
    shared = frozenset.intersection(*(frozenset(assignor.protocols) for assignor in assignors))
    if not shared:
        names = ", ".join(assignor.name for assignor in assignors)
        raise ConfigError([f"partition.assignment.strategy: {names} have no common rebalance protocol"])
    return (
        RebalanceProtocol.COOPERATIVE if RebalanceProtocol.COOPERATIVE in shared else RebalanceProtocol.EAGER
    )


def check_cooperative(name: str, members: Sequence[Member], assigned: Mapping[str, Assignment]) -> None:
    """Raise InvalidState if a partition is assigned while another member owns it: both would read it."""
    owners = {partition: member.member_id for member in members for partition in member.owned}
    for member in members:
        owned = frozenset(member.owned)
        for partition in assigned.get(member.member_id, Assignment(())).partitions:
            if partition in owners and partition not in owned:
                raise InvalidState(
                    f"cooperative assignor {name} must withhold {partition} until {owners[partition]} has "
                    f"revoked it, got it assigned to {member.member_id}"
                )


def _by_name(name: str) -> Assignor:
    if name not in ASSIGNORS:
        known = ", ".join(ASSIGNORS)
        raise ConfigError([f"partition.assignment.strategy: must be one of {known}, got {name!r}"])
    return ASSIGNORS[name]()
