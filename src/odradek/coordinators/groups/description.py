"""What outsiders are told of groups."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from odradek.coordinators.groups.commands import GroupDescription, GroupListing
from odradek.coordinators.groups.group import Group, GroupState
from odradek.model.errors import ErrorCode

_UNKNOWN: Final = GroupDescription(ErrorCode.NONE, GroupState.DEAD.value, "", "", ())
"""A group nobody knows is a dead one, and no error."""


def describe(group: Group | None) -> GroupDescription:
    """Protocol, metadata and assignments are told of stable groups alone: in between they do not hold."""
    if group is None:
        return _UNKNOWN
    protocol = group.protocol if group.state is GroupState.STABLE else None
    return GroupDescription(
        ErrorCode.NONE,
        group.state.value,
        group.protocol_type,
        protocol or "",
        tuple(member.description(protocol) for member in group.members.values()),
    )


def listing(groups: Iterable[Group], states: Collection[str]) -> list[GroupListing]:
    """Groups in one of these states, in any spelling; without states, all."""
    wanted = {state.lower() for state in states}
    return [
        GroupListing(group.name, group.protocol_type, group.state.value)
        for group in groups
        if not wanted or group.state.value.lower() in wanted
    ]
