"""JoinGroup: validation, immediate results, and requests that wait for the rebalance.

A join is rejected before any state changes, with one exception, as in Kafka: a member of a group that exceeds
``group.max.size`` is removed when it rejoins too late.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from odradek.coordinators.append_errors import assignment_error
from odradek.coordinators.groups.commands import NO_MEMBER, JoinGroup, JoinGroupResult, SyncGroupResult
from odradek.coordinators.groups.event_context import EventContext
from odradek.coordinators.groups.group import Group, GroupState, stored_group
from odradek.coordinators.groups.group_member import GroupMember, Protocols
from odradek.coordinators.groups.membership.rebalance import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    SessionTimer,
    await_join,
    join_result,
    prepare_rebalance,
    rebalance_reason,
    remove_member,
    remove_pending_member,
    renew_session,
    reply_to_join,
    reply_to_sync,
    try_complete_join,
)
from odradek.coordinators.groups.records import group_record
from odradek.model.errors import ErrorCode


def handle_join_group(
    groups: dict[str, Group], command: JoinGroup, to: object, context: EventContext
) -> None:
    settings = context.settings
    if not settings.session_timeout_min_ms <= command.session_timeout_ms <= settings.session_timeout_max_ms:
        context.reply(to, JoinGroupResult(ErrorCode.INVALID_SESSION_TIMEOUT, command.member_id))
        return
    group = groups.get(command.group_id)
    if group is None:
        if command.member_id != NO_MEMBER:
            context.reply(to, JoinGroupResult(ErrorCode.UNKNOWN_MEMBER_ID, command.member_id))
            return
        group = Group(command.group_id, context.now.wall_ms)
    if not accepts_joining_member(group, command.member_id, settings.members_max):
        context.reply(to, JoinGroupResult(ErrorCode.GROUP_MAX_SIZE_REACHED, NO_MEMBER))
        _remove_rejected(group, command.member_id, context)
        return
    code = validate_join(group, command)
    if code is not ErrorCode.NONE:
        context.reply(to, JoinGroupResult(code, command.member_id))
        return
    groups[command.group_id] = group
    _accept(group, command, to, context)
    if group.state is GroupState.PREPARING_REBALANCE:
        try_complete_join(group, context)


def accepts_joining_member(group: Group, member_id: str, members_max: int) -> bool:
    """Return whether the group has room. During a rebalance only members that have rejoined count, so a group
    that is too large because the limit was lowered loses its slowest members."""
    match group.state:
        case GroupState.EMPTY | GroupState.DEAD:
            return True
        case GroupState.PREPARING_REBALANCE:
            member = group.members.get(member_id)
            return (member is not None and member.awaits_join) or group.joining_count < members_max
        case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
            return member_id in group.members or len(group.members) < members_max


def _remove_rejected(group: Group, member_id: str, context: EventContext) -> None:
    member = group.members.get(member_id)
    if member is not None:
        remove_member(group, member, context)
        try_complete_join(group, context)
    elif member_id in group.pending_members:
        remove_pending_member(group, member_id, context)


def validate_join(group: Group, command: JoinGroup) -> ErrorCode:
    """Return NONE if the member may join."""
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if not group.supports(command.protocol_type, command.protocols):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if command.member_id == NO_MEMBER:
        return ErrorCode.NONE
    if command.member_id in group.pending_members:
        # Static members never get MEMBER_ID_REQUIRED, so no correct client sends this.
        return ErrorCode.NONE if command.instance_id is None else ErrorCode.UNKNOWN_SERVER_ERROR
    return group.validate_member(command.member_id, command.instance_id)


def _accept(group: Group, command: JoinGroup, to: object, context: EventContext) -> None:
    if command.member_id == NO_MEMBER:
        _join_without_member_id(group, command, to, context)
    elif command.member_id in group.pending_members:
        _add_member(group, command.member_id, command, to, context)
    else:
        _REJOIN[group.state](group, group.members[command.member_id], command, to, context)


# Members without a member id.


def _join_without_member_id(group: Group, command: JoinGroup, to: object, context: EventContext) -> None:
    if command.instance_id is not None:
        member_id = f"{command.instance_id}-{context.new_id()}"
        if command.instance_id in group.static_members:
            replace_static_member(group, member_id, command, to, context)
        else:
            _add_member(group, member_id, command, to, context)
        return
    member_id = f"{command.client_id}-{context.new_id()}"
    if not command.requires_known_member_id:
        _add_member(group, member_id, command, to, context)
        return
    group.pending_members.add(member_id)
    context.schedule_timer(SessionTimer(group.group_id, member_id), command.session_timeout_ms)
    context.reply(to, JoinGroupResult(ErrorCode.MEMBER_ID_REQUIRED, member_id))


def _add_member(group: Group, member_id: str, command: JoinGroup, to: object, context: EventContext) -> None:
    if group.initial_delay is not None and group.generation == 0:
        group.initial_delay.has_new_member = True
    member = GroupMember(
        member_id,
        command.instance_id,
        command.client_id,
        command.client_host,
        command.rebalance_timeout_ms,
        command.session_timeout_ms,
        command.protocols,
        is_new=True,
    )
    group.add(member, command.protocol_type)
    group.start_joining(member, to)
    context.schedule_timer(SessionTimer(group.group_id, member_id), NEW_MEMBER_JOIN_TIMEOUT_MS)
    if group.can_rebalance:
        reason = rebalance_reason(f"member {member_id} joined", command.reason)
        prepare_rebalance(group, reason, context)


# Known members, by state of the group.

Rejoin = Callable[[Group, GroupMember, JoinGroup, object, EventContext], None]


def _rejoin(group: Group, member: GroupMember, command: JoinGroup, to: object, context: EventContext) -> None:
    group.update_member(member, command.protocols, command.rebalance_timeout_ms, command.session_timeout_ms)
    await_join(group, member, to, context)
    if group.can_rebalance:
        reason = rebalance_reason(f"member {member.member_id} rejoined", command.reason)
        prepare_rebalance(group, reason, context)


def _rejoin_while_completing(
    group: Group, member: GroupMember, command: JoinGroup, to: object, context: EventContext
) -> None:
    """Repeat the result for a member with unchanged protocols: it may have missed the response."""
    if member.protocols != command.protocols:
        _rejoin(group, member, command, to, context)
        return
    is_leader = member.member_id == group.leader
    context.reply(to, join_result(group, member, with_members=is_leader))


def _rejoin_while_stable(
    group: Group, member: GroupMember, command: JoinGroup, to: object, context: EventContext
) -> None:
    """Rebalance if the leader rejoins, which happens when topics change. A follower with unchanged protocols
    may have missed a response, and can sync."""
    if member.member_id == group.leader or member.protocols != command.protocols:
        _rejoin(group, member, command, to, context)
        return
    context.reply(to, join_result(group, member, with_members=False))


_REJOIN: Final[dict[GroupState, Rejoin]] = {
    GroupState.PREPARING_REBALANCE: _rejoin,
    GroupState.COMPLETING_REBALANCE: _rejoin_while_completing,
    GroupState.STABLE: _rejoin_while_stable,
}
"""Groups that are Empty or Dead have no members that could rejoin."""


# Replacement of a static member by a process that joins with its group instance id (KIP-345).
#
# The old process is fenced at once. A stable group does not rebalance as long as it would select the same
# protocol: the new member id is stored, and then the join is completed. If it cannot be stored, the
# replacement is undone.


def replace_static_member(
    group: Group, member_id: str, command: JoinGroup, to: object, context: EventContext
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
        context.append([group_record(group.group_id, stored_group(group, assignments))], completion)
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
        self, group: Group, member: GroupMember, supports_skipping_assignment: bool, to: object
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
