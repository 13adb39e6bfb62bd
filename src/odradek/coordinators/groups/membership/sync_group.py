"""SyncGroup: members request their assignment, and the leader provides it.

The leader's assignment is stored before any member receives it, so that it survives the broker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from odradek.coordinators.append_errors import assignment_error
from odradek.coordinators.groups.commands import SyncGroup, SyncGroupResult
from odradek.coordinators.groups.event_context import EventContext
from odradek.coordinators.groups.group import Group, GroupState, stored_group
from odradek.coordinators.groups.group_member import GroupMember
from odradek.coordinators.groups.membership.rebalance import (
    prepare_rebalance,
    remove_pending_sync_member,
    renew_session,
    reply_to_sync,
    reset_assignments,
)
from odradek.coordinators.groups.records import group_record
from odradek.model.errors import ErrorCode


def handle_sync_group(
    groups: Mapping[str, Group], command: SyncGroup, to: object, context: EventContext
) -> None:
    group = groups.get(command.group_id)
    if group is None:
        context.reply(to, SyncGroupResult(ErrorCode.UNKNOWN_MEMBER_ID))
        return
    code = validate_sync(group, command)
    if code is not ErrorCode.NONE:
        context.reply(to, SyncGroupResult(code))
        return
    _BY_STATE[group.state](group, command, to, context)


def validate_sync(group: Group, command: SyncGroup) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    code = group.validate_member(command.member_id, command.instance_id)
    if code is not ErrorCode.NONE:
        return code
    if command.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if command.protocol_type is not None and command.protocol_type != group.protocol_type:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if command.protocol is not None and command.protocol != group.protocol:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


# By state of the group; groups that are Empty or Dead have no members that could sync.


def _sync_while_preparing(_group: Group, _command: SyncGroup, to: object, context: EventContext) -> None:
    context.reply(to, SyncGroupResult(ErrorCode.REBALANCE_IN_PROGRESS))


def _sync_while_completing(group: Group, command: SyncGroup, to: object, context: EventContext) -> None:
    member = group.members[command.member_id]
    # The client has given up an earlier SyncGroup request of the same member.
    reply_to_sync(member, SyncGroupResult(ErrorCode.REBALANCE_IN_PROGRESS), context)
    member.pending_sync = to
    remove_pending_sync_member(group, member.member_id, context)
    if member.member_id == group.leader and group.pending_assignment is None:
        # If the leader repeats its request, the first assignment is kept.
        group.pending_assignment = AssignmentAppend(group, dict(command.assignments))
        record = group_record(group.group_id, stored_group(group, command.assignments))
        context.append([record], group.pending_assignment)


def _sync_while_stable(group: Group, command: SyncGroup, to: object, context: EventContext) -> None:
    member = group.members[command.member_id]
    remove_pending_sync_member(group, member.member_id, context)
    context.reply(to, _sync_result(group, member))
    renew_session(group, member, context)


_BY_STATE: Final[dict[GroupState, Callable[[Group, SyncGroup, object, EventContext], None]]] = {
    GroupState.PREPARING_REBALANCE: _sync_while_preparing,
    GroupState.COMPLETING_REBALANCE: _sync_while_completing,
    GroupState.STABLE: _sync_while_stable,
}


def _sync_result(group: Group, member: GroupMember) -> SyncGroupResult:
    return SyncGroupResult(ErrorCode.NONE, group.protocol_type, group.protocol, member.assignment)


class AssignmentAppend:
    """Completes the rebalance; does nothing if the group has started another one in the meantime."""

    def __init__(self, group: Group, assignments: Mapping[str, bytes]) -> None:
        self.group = group
        self.assignments = assignments

    def on_committed(self, context: EventContext) -> None:
        group = self.group
        if group.pending_assignment is not self:
            return
        group.pending_assignment = None
        for member in group.members.values():
            member.assignment = self.assignments.get(member.member_id, b"")
            if reply_to_sync(member, _sync_result(group, member), context):
                renew_session(group, member, context)
        group.transition_to(GroupState.STABLE, context.now.wall_ms)

    def on_failed(self, code: ErrorCode, context: EventContext) -> None:
        group = self.group
        if group.pending_assignment is not self:
            return
        reset_assignments(group, assignment_error(code), context)
        prepare_rebalance(group, f"the assignment was not stored: {code.name}", context)

    def on_unloaded(self, context: EventContext) -> None:
        """``on_group_unloaded`` replies to the waiting members."""
