"""DescribeGroups and ListGroups."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from odradek.coordinators.groups.commands import GroupDescription, GroupListing
from odradek.coordinators.groups.group import Group, GroupState
from odradek.model.errors import ErrorCode

_UNKNOWN_GROUP: Final = GroupDescription(ErrorCode.NONE, GroupState.DEAD.value, "", "", ())
"""An unknown group is described as Dead, without an error."""


def describe_group(group: Group | None) -> GroupDescription:
    """Describe a group. Protocol, metadata and assignments are only valid, and included, in Stable groups."""
    if group is None:
        return _UNKNOWN_GROUP
    protocol = group.protocol if group.state is GroupState.STABLE else None
    return GroupDescription(
        ErrorCode.NONE,
        group.state.value,
        group.protocol_type,
        protocol or "",
        tuple(member.describe(protocol) for member in group.members.values()),
    )


def list_groups(groups: Iterable[Group], states: Collection[str]) -> list[GroupListing]:
    """List the groups in one of these states, compared case-insensitively; without states, all."""
    requested = {state.lower() for state in states}
    return [
        GroupListing(group.group_id, group.protocol_type, group.state.value)
        for group in groups
        if not requested or group.state.value.lower() in requested
    ]
