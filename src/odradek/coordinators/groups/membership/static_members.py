"""A static member that comes back without its id (KIP-345): another process goes on in its place.

Its predecessor is fenced at once. A stable group does not rebalance for it as long as the group would still
choose the same protocol: the change is stored, and only then is the join answered. If it cannot be stored,
all is as before.
"""

from __future__ import annotations

from typing import Any

from odradek.coordinators.append_errors import store_error
from odradek.coordinators.groups.commands import NO_MEMBER, JoinGroup, JoinGroupResult, SyncGroupResult
from odradek.coordinators.groups.event_context import EventContext
from odradek.coordinators.groups.group import Group, GroupState
from odradek.coordinators.groups.group_member import GroupMember, Protocols
from odradek.coordinators.groups.membership.rebalance import (
    SessionTimer,
    answer_join,
    answer_sync,
    because,
    joined,
    prepare,
    renew_session,
)
from odradek.coordinators.groups.records import group_entry
from odradek.model.errors import ErrorCode


def replace_static(group: Group, name: str, command: JoinGroup, to: Any, turn: EventContext) -> None:
    """``name`` is the new id of the member that the command's instance stands for."""
    member = group.members[group.static_members[command.instance or ""]]
    outcome = StaticMemberStored(group, member, command.supports_skipping_assignment, to)
    _fence(group, member, turn)
    _rename(group, member, name, turn)
    group.change(member, command.protocols, command.rebalance_timeout_ms, command.session_timeout_ms)
    group.start_joining(member, to)
    renew_session(group, member, turn)
    if group.state is GroupState.STABLE and group.elected_protocol() == group.protocol:
        assignments = {each.member: each.assignment for each in group.members.values()}
        turn.append([group_entry(group.name, group.to_store(assignments))], outcome)
    elif group.can_rebalance:
        # The leader may be assigning to the old id, or the protocol changes.
        reason = f"static member {command.instance} was replaced by {name}"
        prepare(group, because(reason, command.reason), turn)


def _fence(group: Group, member: GroupMember, turn: EventContext) -> None:
    answer_join(group, member, JoinGroupResult(ErrorCode.FENCED_INSTANCE_ID, member.member), turn)
    answer_sync(member, SyncGroupResult(ErrorCode.FENCED_INSTANCE_ID), turn)


def _rename(group: Group, member: GroupMember, name: str, turn: EventContext) -> None:
    turn.disarm(SessionTimer(group.name, member.member))
    group.rename(member, name)


class StaticMemberStored:
    """If anything else made the group rebalance meanwhile, the join counts there and is answered there."""

    def __init__(
        self, group: Group, member: GroupMember, supports_skipping_assignment: bool, to: Any
    ) -> None:
        self.group = group
        self.member = member
        self.supports_skipping_assignment = supports_skipping_assignment
        self.to = to
        self.old_name = member.member
        self.old_leader = group.leader
        self.old_protocols: Protocols = member.protocols
        self.old_timeouts = (member.rebalance_timeout_ms, member.session_timeout_ms)

    def committed(self, turn: EventContext) -> None:
        if not self._is_awaited():
            return
        answer_join(self.group, self.member, self._answer(), turn)

    def _answer(self) -> JoinGroupResult:
        """A leader that cannot be told to skip the assignment is told the id it had before as the leader's,
        so that it takes itself for a follower: nobody would hear its assignment."""
        leads = self.member.member == self.group.leader
        if self.supports_skipping_assignment:
            answer = joined(self.group, self.member, tells_members=leads)
            return answer._replace(skip_assignment=leads)
        answer = joined(self.group, self.member, tells_members=False)
        return answer._replace(leader=self.old_leader or NO_MEMBER)

    def refused(self, code: ErrorCode, turn: EventContext) -> None:
        if not self._is_awaited():
            return
        group, member = self.group, self.member
        answer = joined(group, member, tells_members=False)._replace(
            error=store_error(code), member=NO_MEMBER, leader=self.old_leader or NO_MEMBER
        )
        answer_join(group, member, answer, turn)
        group.change(member, self.old_protocols, *self.old_timeouts)
        _rename(group, member, self.old_name, turn)
        renew_session(group, member, turn)

    def abandoned(self, turn: EventContext) -> None:
        """The member's join is answered with those of all others."""

    def _is_awaited(self) -> bool:
        return self.group.state is GroupState.STABLE and self.member.joining is self.to
