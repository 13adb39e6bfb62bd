"""What members of a group do besides rebalancing: say that they are alive, commit, and leave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from odradek.coordinators.groups.commands import (
    NO_MEMBER,
    CommitOffsets,
    Heartbeat,
    LeaveGroup,
    LeaveGroupResult,
    LeavingMember,
)
from odradek.coordinators.groups.event_context import EventContext
from odradek.coordinators.groups.group import Group, GroupState
from odradek.coordinators.groups.membership.rebalance import (
    because,
    remove_member,
    remove_pending,
    renew_session,
)
from odradek.model.errors import ErrorCode

# Heartbeat.

_HEARTBEAT: Final[dict[GroupState, ErrorCode]] = {
    GroupState.PREPARING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    GroupState.COMPLETING_REBALANCE: ErrorCode.NONE,
    GroupState.STABLE: ErrorCode.NONE,
}
"""Clients may begin with heartbeats before they have synced."""


def heartbeat(groups: Mapping[str, Group], command: Heartbeat, to: Any, turn: EventContext) -> None:
    group = groups.get(command.group)
    if group is None:
        turn.reply(to, ErrorCode.UNKNOWN_MEMBER_ID)
        return
    code = _heartbeat_refusal(group, command)
    if code is ErrorCode.NONE:
        code = _HEARTBEAT[group.state]
        renew_session(group, group.members[command.member], turn)
    turn.reply(to, code)


def _heartbeat_refusal(group: Group, command: Heartbeat) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    code = group.identity_error(command.member, command.instance)
    if code is ErrorCode.NONE and command.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return code


# LeaveGroup.


def leave(groups: Mapping[str, Group], command: LeaveGroup, to: Any, turn: EventContext) -> None:
    group = groups.get(command.group)
    if group is None:
        turn.reply(
            to, LeaveGroupResult(ErrorCode.NONE, (ErrorCode.UNKNOWN_MEMBER_ID,) * len(command.leavers))
        )
    elif group.state is GroupState.DEAD:
        turn.reply(to, LeaveGroupResult(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    else:
        errors = tuple(_leave(group, leaver, turn) for leaver in command.leavers)
        turn.reply(to, LeaveGroupResult(ErrorCode.NONE, errors))


def _leave(group: Group, leaver: LeavingMember, turn: EventContext) -> ErrorCode:
    name = leaver.member
    if name == NO_MEMBER:
        # An administrator removes a static member by its instance.
        name = group.static_members.get(leaver.instance or "", NO_MEMBER)
        code = ErrorCode.NONE if name else ErrorCode.UNKNOWN_MEMBER_ID
    elif name in group.pending:
        remove_pending(group, name, turn)
        return ErrorCode.NONE
    else:
        code = group.identity_error(name, leaver.instance)
    if code is ErrorCode.NONE:
        reason = because(f"member {name} left", leaver.reason)
        remove_member(group, group.members[name], reason, turn)
    return code


# CommitOffsets.


def commit_refusal(group: Group, command: CommitOffsets) -> ErrorCode:
    """Who may commit: members of the current generation, and anybody while a group has no members.

    Transactions may commit without saying who they are: producers older than KIP-447 do.
    """
    is_transactional = command.producer_id >= 0
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if command.generation < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if command.generation < 0 and command.member == NO_MEMBER and command.instance is None:
        return ErrorCode.NONE if is_transactional else ErrorCode.UNKNOWN_MEMBER_ID
    code = group.identity_error(command.member, command.instance)
    if code is not ErrorCode.NONE:
        return code
    if command.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.COMPLETING_REBALANCE and not is_transactional:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def has_committed(group: Group, command: CommitOffsets, turn: EventContext) -> None:
    """A commit is as good as a heartbeat, but for one of a transaction: its producer is not the member."""
    member = group.members.get(command.member)
    if member is not None and command.producer_id < 0:
        renew_session(group, member, turn)
