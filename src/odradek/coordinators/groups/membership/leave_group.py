"""LeaveGroup: removal of members on request."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.coordinators.groups.commands import NO_MEMBER, LeaveGroup, LeaveGroupResult, LeavingMember
from odradek.coordinators.groups.event_context import EventContext
from odradek.coordinators.groups.group import Group, GroupState
from odradek.coordinators.groups.membership.rebalance import (
    rebalance_reason,
    remove_member_and_rebalance,
    remove_pending_member,
)
from odradek.model.errors import ErrorCode


def handle_leave_group(
    groups: Mapping[str, Group], command: LeaveGroup, to: object, context: EventContext
) -> None:
    group = groups.get(command.group_id)
    if group is None:
        unknown = (ErrorCode.UNKNOWN_MEMBER_ID,) * len(command.members)
        context.reply(to, LeaveGroupResult(ErrorCode.NONE, unknown))
    elif group.state is GroupState.DEAD:
        context.reply(to, LeaveGroupResult(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    else:
        errors = tuple(_remove(group, leaving, context) for leaving in command.members)
        context.reply(to, LeaveGroupResult(ErrorCode.NONE, errors))


def _remove(group: Group, leaving: LeavingMember, context: EventContext) -> ErrorCode:
    member_id = leaving.member_id
    if member_id == NO_MEMBER:
        # An administrator removes a static member by its group instance id.
        member_id = group.static_members.get(leaving.instance_id or "", NO_MEMBER)
        code = ErrorCode.NONE if member_id else ErrorCode.UNKNOWN_MEMBER_ID
    elif member_id in group.pending_members:
        remove_pending_member(group, member_id, context)
        return ErrorCode.NONE
    else:
        code = group.validate_member(member_id, leaving.instance_id)
    if code is ErrorCode.NONE:
        reason = rebalance_reason(f"member {member_id} left", leaving.reason)
        remove_member_and_rebalance(group, group.members[member_id], reason, context)
    return code
