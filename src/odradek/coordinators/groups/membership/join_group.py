"""JoinGroup: validation, immediate results, and requests that wait for the rebalance.

A join is rejected before any state changes, with one exception, as in Kafka: a member of a group that exceeds
``group.max.size`` is removed when it rejoins too late.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from odradek.coordinators.groups.commands import NO_MEMBER, JoinGroup, JoinGroupResult
from odradek.coordinators.groups.event_context import EventContext
from odradek.coordinators.groups.group import Group, GroupState
from odradek.coordinators.groups.group_member import GroupMember
from odradek.coordinators.groups.membership.rebalance import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    SessionTimer,
    await_join,
    join_result,
    prepare_rebalance,
    rebalance_reason,
    remove_member,
    remove_pending_member,
    try_complete_join,
)
from odradek.coordinators.groups.membership.static_members import replace_static_member
from odradek.model.errors import ErrorCode


def handle_join_group(groups: dict[str, Group], command: JoinGroup, to: Any, context: EventContext) -> None:
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


def _accept(group: Group, command: JoinGroup, to: Any, context: EventContext) -> None:
    if command.member_id == NO_MEMBER:
        _join_without_member_id(group, command, to, context)
    elif command.member_id in group.pending_members:
        _add_member(group, command.member_id, command, to, context)
    else:
        _REJOIN[group.state](group, group.members[command.member_id], command, to, context)


# Members without a member id.


def _join_without_member_id(group: Group, command: JoinGroup, to: Any, context: EventContext) -> None:
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


def _add_member(group: Group, member_id: str, command: JoinGroup, to: Any, context: EventContext) -> None:
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

Rejoin = Callable[[Group, GroupMember, JoinGroup, Any, EventContext], None]


def _rejoin(group: Group, member: GroupMember, command: JoinGroup, to: Any, context: EventContext) -> None:
    group.update_member(member, command.protocols, command.rebalance_timeout_ms, command.session_timeout_ms)
    await_join(group, member, to, context)
    if group.can_rebalance:
        reason = rebalance_reason(f"member {member.member_id} rejoined", command.reason)
        prepare_rebalance(group, reason, context)


def _rejoin_while_completing(
    group: Group, member: GroupMember, command: JoinGroup, to: Any, context: EventContext
) -> None:
    """Repeat the result for a member with unchanged protocols: it may have missed the response."""
    if member.protocols != command.protocols:
        _rejoin(group, member, command, to, context)
        return
    is_leader = member.member_id == group.leader
    context.reply(to, join_result(group, member, with_members=is_leader))


def _rejoin_while_stable(
    group: Group, member: GroupMember, command: JoinGroup, to: Any, context: EventContext
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
