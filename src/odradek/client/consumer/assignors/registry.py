"""Which assignors a consumer uses, and how its group changes over with them."""

from __future__ import annotations

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


def configured_assignors(names: Iterable[str], own: Sequence[Assignor] = ()) -> tuple[Assignor, ...]:
    """The program's own assignors, then those of ``partition.assignment.strategy``, most wanted first."""
    chosen = list(own)
    if not own:
        chosen = [_by_name(name) for name in names]
    twice = {one.name for one in chosen if sum(one.name == other.name for other in chosen) > 1}
    if twice:
        raise ConfigError([f"partition.assignment.strategy: {', '.join(sorted(twice))} is named twice"])
    if not chosen:
        raise ConfigError(["partition.assignment.strategy: a consumer group needs an assignor"])
    common_protocol(chosen)
    return tuple(chosen)


def common_protocol(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """Cooperative if all of them can be, so that a group can be brought over one restart after another."""
    shared = frozenset.intersection(*(frozenset(one.protocols) for one in assignors))
    if not shared:
        names = ", ".join(one.name for one in assignors)
        raise ConfigError([f"partition.assignment.strategy: {names} cannot be used together"])
    return (
        RebalanceProtocol.COOPERATIVE if RebalanceProtocol.COOPERATIVE in shared else RebalanceProtocol.EAGER
    )


def check_cooperative(name: str, members: Sequence[Member], assigned: Mapping[str, Assignment]) -> None:
    """Raise InvalidState if somebody gets what another one still has: two would read it at once."""
    held = {partition: member.member_id for member in members for partition in member.owned}
    for member in members:
        own = frozenset(member.owned)
        for partition in assigned.get(member.member_id, Assignment(())).partitions:
            if partition in held and partition not in own:
                raise InvalidState(
                    f"assignor {name} gives {partition} to {member.member_id} while {held[partition]} has it:"
                    " a cooperative assignor must withhold it until it was given up"
                )


def _by_name(name: str) -> Assignor:
    if name not in ASSIGNORS:
        raise ConfigError([f"partition.assignment.strategy: {name!r} is none of {', '.join(ASSIGNORS)}"])
    return ASSIGNORS[name]()
