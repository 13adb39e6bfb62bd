"""SyncGroup: members ask for their part, and the leader says who gets what.

The leader's assignment is stored before anybody hears of it: what a member works on survives the broker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from odradek.coordinators.append_errors import store_error
from odradek.coordinators.groups.commands import SyncGroup, SyncGroupResult
from odradek.coordinators.groups.event_context import EventContext
from odradek.coordinators.groups.group import Group, GroupState
from odradek.coordinators.groups.group_member import GroupMember
from odradek.coordinators.groups.membership.rebalance import (
    answer_sync,
    drop_assignments,
    has_synced,
    prepare,
    renew_session,
)
from odradek.coordinators.groups.records import group_entry
from odradek.model.errors import ErrorCode


def sync(groups: Mapping[str, Group], command: SyncGroup, to: Any, turn: EventContext) -> None:
    group = groups.get(command.group)
    if group is None:
        turn.reply(to, SyncGroupResult(ErrorCode.UNKNOWN_MEMBER_ID))
        return
    code = refusal(group, command)
    if code is not ErrorCode.NONE:
        turn.reply(to, SyncGroupResult(code))
        return
    _BY_STATE[group.state](group, command, to, turn)


def refusal(group: Group, command: SyncGroup) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    code = group.identity_error(command.member, command.instance)
    if code is not ErrorCode.NONE:
        return code
    if command.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if command.protocol_type is not None and command.protocol_type != group.protocol_type:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if command.protocol is not None and command.protocol != group.protocol:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


# By state; groups that are empty or dead have no members to sync.


def _sync_while_preparing(_group: Group, _command: SyncGroup, to: Any, turn: EventContext) -> None:
    turn.reply(to, SyncGroupResult(ErrorCode.REBALANCE_IN_PROGRESS))


def _sync_while_completing(group: Group, command: SyncGroup, to: Any, turn: EventContext) -> None:
    member = group.members[command.member]
    # An earlier sync of the same member has been given up by its client.
    answer_sync(member, SyncGroupResult(ErrorCode.REBALANCE_IN_PROGRESS), turn)
    member.syncing = to
    has_synced(group, member.member, turn)
    if member.member == group.leader and group.storing is None:
        # A leader that says it twice is not stored twice: the first assignment holds.
        group.storing = AssignmentStored(group, dict(command.assignments))
        entry = group_entry(group.name, group.to_store(command.assignments))
        turn.append([entry], group.storing)


def _sync_while_stable(group: Group, command: SyncGroup, to: Any, turn: EventContext) -> None:
    member = group.members[command.member]
    has_synced(group, member.member, turn)
    turn.reply(to, _assigned(group, member))
    renew_session(group, member, turn)


_BY_STATE: Final[dict[GroupState, Callable[[Group, SyncGroup, Any, EventContext], None]]] = {
    GroupState.PREPARING_REBALANCE: _sync_while_preparing,
    GroupState.COMPLETING_REBALANCE: _sync_while_completing,
    GroupState.STABLE: _sync_while_stable,
}


def _assigned(group: Group, member: GroupMember) -> SyncGroupResult:
    return SyncGroupResult(ErrorCode.NONE, group.protocol_type, group.protocol, member.assignment)


class AssignmentStored:
    """Nothing comes of it if the group went on to another rebalance meanwhile."""

    def __init__(self, group: Group, assignments: Mapping[str, bytes]) -> None:
        self.group = group
        self.assignments = assignments

    def committed(self, turn: EventContext) -> None:
        group = self.group
        if group.storing is not self:
            return
        group.storing = None
        for member in group.members.values():
            member.assignment = self.assignments.get(member.member, b"")
            if answer_sync(member, _assigned(group, member), turn):
                renew_session(group, member, turn)
        group.move_to(GroupState.STABLE, turn.now.wall_ms)

    def refused(self, code: ErrorCode, turn: EventContext) -> None:
        group = self.group
        if group.storing is not self:
            return
        drop_assignments(group, store_error(code), turn)
        prepare(group, f"the assignment was not stored: {code.name}", turn)

    def abandoned(self, turn: EventContext) -> None:
        """Those who wait are answered with their group."""
