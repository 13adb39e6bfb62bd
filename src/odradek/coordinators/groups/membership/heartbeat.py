"""Heartbeat: renewal of a member's session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.coordinators.groups.commands import Heartbeat
from odradek.coordinators.groups.event_context import EventContext
from odradek.coordinators.groups.group import Group, GroupState
from odradek.coordinators.groups.membership.rebalance import renew_session
from odradek.model.errors import ErrorCode

_RESULTS: Final[dict[GroupState, ErrorCode]] = {
    GroupState.PREPARING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    GroupState.COMPLETING_REBALANCE: ErrorCode.NONE,
    GroupState.STABLE: ErrorCode.NONE,
}
"""Results for a valid member. Clients may send heartbeats before they have synced."""


def handle_heartbeat(
    groups: Mapping[str, Group], command: Heartbeat, to: object, context: EventContext
) -> None:
    group = groups.get(command.group_id)
    if group is None:
        context.reply(to, ErrorCode.UNKNOWN_MEMBER_ID)
        return
    code = _validate(group, command)
    if code is ErrorCode.NONE:
        code = _RESULTS[group.state]
        renew_session(group, group.members[command.member_id], context)
    context.reply(to, code)


def _validate(group: Group, command: Heartbeat) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    code = group.validate_member(command.member_id, command.instance_id)
    if code is ErrorCode.NONE and command.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return code
