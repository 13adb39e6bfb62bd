"""Replacement of a static member by a process that joins with its group instance id (KIP-345).

The old process is fenced at once. A stable group does not rebalance as long as it would select the same
protocol: the new member id is stored, and then the join is completed. If it cannot be stored, the replacement
is undone.
"""

from __future__ import annotations

from typing import Any

from odradek.coordinators.append_errors import assignment_error
from odradek.coordinators.groups.commands import NO_MEMBER, JoinGroup, JoinGroupResult, SyncGroupResult
from odradek.coordinators.groups.event_context import EventContext
from odradek.coordinators.groups.group import Group, GroupState
from odradek.coordinators.groups.group_member import GroupMember, Protocols
from odradek.coordinators.groups.membership.rebalance import (
    SessionTimer,
    join_result,
    prepare_rebalance,
    rebalance_reason,
    renew_session,
    reply_to_join,
    reply_to_sync,
)
from odradek.coordinators.groups.records import group_record
from odradek.model.errors import ErrorCode


def replace_static_member(
    group: Group, member_id: str, command: JoinGroup, to: Any, context: EventContext
) -> None:
    """Give ``member_id`` to the static member of the command's group instance id."""
    member = group.members[group.static_members[command.instance_id or ""]]
    completion = StaticMemberAppend(group, member, command.supports_skipping_assignment, to)
    _fence(group, member, context)
    _replace_member_id(group, member, member_id, context)
    group.update_member(member, command.protocols, command.rebalance_timeout_ms, command.session_timeout_ms)
    group.start_joining(member, to)
    renew_session(group, member, context)
    if group.state is GroupState.STABLE and group.select_protocol() == group.protocol:
        assignments = {each.member_id: each.assignment for each in group.members.values()}
        context.append([group_record(group.group_id, group.to_stored(assignments))], completion)
    elif group.can_rebalance:
        # The leader may be assigning to the old member id, or the protocol changes.
        cause = f"static member {command.instance_id} was replaced by {member_id}"
        prepare_rebalance(group, rebalance_reason(cause, command.reason), context)


def _fence(group: Group, member: GroupMember, context: EventContext) -> None:
    fenced = JoinGroupResult(ErrorCode.FENCED_INSTANCE_ID, member.member_id)
    reply_to_join(group, member, fenced, context)
    reply_to_sync(member, SyncGroupResult(ErrorCode.FENCED_INSTANCE_ID), context)


def _replace_member_id(group: Group, member: GroupMember, member_id: str, context: EventContext) -> None:
    context.cancel_timer(SessionTimer(group.group_id, member.member_id))
    group.replace_member_id(member, member_id)


class StaticMemberAppend:
    """Completes the join, unless the group has started a rebalance, which then completes it."""

    def __init__(
        self, group: Group, member: GroupMember, supports_skipping_assignment: bool, to: Any
    ) -> None:
        self.group = group
        self.member = member
        self.supports_skipping_assignment = supports_skipping_assignment
        self.to = to
        self.old_member_id = member.member_id
        self.old_leader = group.leader
        self.old_protocols: Protocols = member.protocols
        self.old_timeouts = (member.rebalance_timeout_ms, member.session_timeout_ms)

    def on_committed(self, context: EventContext) -> None:
        if not self._is_pending():
            return
        reply_to_join(self.group, self.member, self._result(), context)

    def _result(self) -> JoinGroupResult:
        """Return the result of the join. A leader that does not support ``skip_assignment`` gets the old
        member id as the leader's, so that it acts as a follower: its assignment would be ignored."""
        is_leader = self.member.member_id == self.group.leader
        if self.supports_skipping_assignment:
            result = join_result(self.group, self.member, with_members=is_leader)
            return result._replace(skip_assignment=is_leader)
        result = join_result(self.group, self.member, with_members=False)
        return result._replace(leader=self.old_leader or NO_MEMBER)

    def on_failed(self, code: ErrorCode, context: EventContext) -> None:
        if not self._is_pending():
            return
        group, member = self.group, self.member
        result = join_result(group, member, with_members=False)._replace(
            error=assignment_error(code), member_id=NO_MEMBER, leader=self.old_leader or NO_MEMBER
        )
        reply_to_join(group, member, result, context)
        group.update_member(member, self.old_protocols, *self.old_timeouts)
        _replace_member_id(group, member, self.old_member_id, context)
        renew_session(group, member, context)

    def on_unloaded(self, context: EventContext) -> None:
        """``on_group_unloaded`` replies to the waiting members."""

    def _is_pending(self) -> bool:
        return self.group.state is GroupState.STABLE and self.member.pending_join is self.to
