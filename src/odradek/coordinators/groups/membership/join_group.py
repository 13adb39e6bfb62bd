"""JoinGroup: who may join a group, what it is told at once, and what waits for the rebalance.

A join is refused before anything is changed, with one exception that Kafka makes too: a member of a group
that has become too large loses its place when it joins again too late.
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
    because,
    dismiss,
    joined,
    prepare,
    remove_pending,
    try_complete_join,
)
from odradek.coordinators.groups.membership.static_members import replace_static
from odradek.model.errors import ErrorCode


def join(groups: dict[str, Group], command: JoinGroup, to: Any, turn: EventContext) -> None:
    settings = turn.settings
    if not settings.session_timeout_min_ms <= command.session_timeout_ms <= settings.session_timeout_max_ms:
        turn.reply(to, JoinGroupResult(ErrorCode.INVALID_SESSION_TIMEOUT, command.member))
        return
    group = groups.get(command.group)
    if group is None:
        if command.member != NO_MEMBER:
            turn.reply(to, JoinGroupResult(ErrorCode.UNKNOWN_MEMBER_ID, command.member))
            return
        group = Group(command.group, turn.now.wall_ms)
    if not has_room(group, command.member, settings.members_max):
        turn.reply(to, JoinGroupResult(ErrorCode.GROUP_MAX_SIZE_REACHED, NO_MEMBER))
        _turn_away(group, command.member, turn)
        return
    code = refusal(group, command)
    if code is not ErrorCode.NONE:
        turn.reply(to, JoinGroupResult(code, command.member))
        return
    groups[command.group] = group
    _accept(group, command, to, turn)
    if group.state is GroupState.PREPARING_REBALANCE:
        try_complete_join(group, turn)


def has_room(group: Group, name: str, members_max: int) -> bool:
    """While members join again it is those who have that count: a group that is too large, because the limit
    was lowered, so loses its slowest members."""
    match group.state:
        case GroupState.EMPTY | GroupState.DEAD:
            return True
        case GroupState.PREPARING_REBALANCE:
            member = group.members.get(name)
            return (member is not None and member.awaits_join) or group.joining_count < members_max
        case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
            return name in group.members or len(group.members) < members_max


def _turn_away(group: Group, name: str, turn: EventContext) -> None:
    member = group.members.get(name)
    if member is not None:
        dismiss(group, member, turn)
        try_complete_join(group, turn)
    elif name in group.pending:
        remove_pending(group, name, turn)


def refusal(group: Group, command: JoinGroup) -> ErrorCode:
    """NONE if the member may join, at once or after others have."""
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if not group.supports(command.protocol_type, command.protocols):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if command.member == NO_MEMBER:
        return ErrorCode.NONE
    if command.member in group.pending:
        # No static member is ever asked to come back with an id, so this is nobody's request.
        return ErrorCode.NONE if command.instance is None else ErrorCode.UNKNOWN_SERVER_ERROR
    return group.identity_error(command.member, command.instance)


def _accept(group: Group, command: JoinGroup, to: Any, turn: EventContext) -> None:
    if command.member == NO_MEMBER:
        _join_first(group, command, to, turn)
    elif command.member in group.pending:
        _add(group, command.member, command, to, turn)
    else:
        _REJOIN[group.state](group, group.members[command.member], command, to, turn)


# Members without an id.


def _join_first(group: Group, command: JoinGroup, to: Any, turn: EventContext) -> None:
    if command.instance is not None:
        name = f"{command.instance}-{turn.new_id()}"
        if command.instance in group.static_members:
            replace_static(group, name, command, to, turn)
        else:
            _add(group, name, command, to, turn)
        return
    name = f"{command.client_id}-{turn.new_id()}"
    if not command.requires_known_member_id:
        _add(group, name, command, to, turn)
        return
    group.pending.add(name)
    turn.arm(SessionTimer(group.name, name), command.session_timeout_ms)
    turn.reply(to, JoinGroupResult(ErrorCode.MEMBER_ID_REQUIRED, name))


def _add(group: Group, name: str, command: JoinGroup, to: Any, turn: EventContext) -> None:
    if group.initial_delay is not None and group.generation == 0:
        group.initial_delay.has_new_member = True
    member = GroupMember(
        name,
        command.instance,
        command.client_id,
        command.client_host,
        command.rebalance_timeout_ms,
        command.session_timeout_ms,
        command.protocols,
        is_new=True,
    )
    group.add(member, command.protocol_type)
    group.start_joining(member, to)
    turn.arm(SessionTimer(group.name, name), NEW_MEMBER_JOIN_TIMEOUT_MS)
    if group.can_rebalance:
        prepare(group, because(f"member {name} joined", command.reason), turn)


# Members of the group, by its state.

Rejoin = Callable[[Group, GroupMember, JoinGroup, Any, EventContext], None]


def _rejoin(group: Group, member: GroupMember, command: JoinGroup, to: Any, turn: EventContext) -> None:
    group.change(member, command.protocols, command.rebalance_timeout_ms, command.session_timeout_ms)
    await_join(group, member, to, turn)
    if group.can_rebalance:
        prepare(group, because(f"member {member.member} rejoined", command.reason), turn)


def _rejoin_while_completing(
    group: Group, member: GroupMember, command: JoinGroup, to: Any, turn: EventContext
) -> None:
    """A member that says the same again may have missed the answer: it is told once more."""
    if member.protocols != command.protocols:
        _rejoin(group, member, command, to, turn)
        return
    turn.reply(to, joined(group, member, tells_members=member.member == group.leader))


def _rejoin_while_stable(
    group: Group, member: GroupMember, command: JoinGroup, to: Any, turn: EventContext
) -> None:
    """A leader that joins wants to assign anew, be it because topics have changed. A follower that says the
    same again may have missed an answer, and can sync."""
    if member.member == group.leader or member.protocols != command.protocols:
        _rejoin(group, member, command, to, turn)
        return
    turn.reply(to, joined(group, member, tells_members=False))


_REJOIN: Final[dict[GroupState, Rejoin]] = {
    GroupState.PREPARING_REBALANCE: _rejoin,
    GroupState.COMPLETING_REBALANCE: _rejoin_while_completing,
    GroupState.STABLE: _rejoin_while_stable,
}
"""Groups that are empty or dead have no members to join again."""
