"""Membership in the groups of one partition: which function judges which command and which timer, and what
becomes of members when the partition is loaded here or leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final

from odradek.coordinators.groups.commands import (
    Heartbeat,
    JoinGroup,
    JoinGroupResult,
    LeaveGroup,
    SyncGroup,
    SyncGroupResult,
)
from odradek.coordinators.groups.event_context import EventContext
from odradek.coordinators.groups.group import Group, GroupState
from odradek.coordinators.groups.membership.heartbeat import heartbeat, leave
from odradek.coordinators.groups.membership.join_group import join
from odradek.coordinators.groups.membership.rebalance import (
    JoinTimer,
    SessionTimer,
    SyncTimer,
    answer_join,
    answer_sync,
    join_ended,
    prepare,
    renew_session,
    session_ended,
    sync_ended,
)
from odradek.coordinators.groups.membership.sync_group import sync
from odradek.model.errors import ErrorCode

Judge = Callable[[dict[str, Group], Any, Any, EventContext], None]
"""Of the groups, a command, whom to answer, and the turn."""

JUDGES: Final[dict[type, Judge]] = {JoinGroup: join, SyncGroup: sync, Heartbeat: heartbeat, LeaveGroup: leave}


def fired(groups: Mapping[str, Group], timer: Hashable, turn: EventContext) -> None:
    """A timer of a group that is gone says nothing."""
    match timer:
        case SessionTimer(name, member):
            _with_group(groups, name, lambda group: session_ended(group, member, turn))
        case JoinTimer(name):
            _with_group(groups, name, lambda group: join_ended(group, turn))
        case SyncTimer(name):
            _with_group(groups, name, lambda group: sync_ended(group, turn))


def _with_group(groups: Mapping[str, Group], name: str, do: Callable[[Group], None]) -> None:
    group = groups.get(name)
    if group is not None and group.state is not GroupState.DEAD:
        do(group)


def take_up(group: Group, turn: EventContext) -> None:
    """A group was loaded: its members have their whole session to be heard of. One that is larger than it may
    be now rebalances, so that those who lose their place can commit before."""
    for member in group.members.values():
        renew_session(group, member, turn)
    if len(group.members) > turn.settings.members_max:
        prepare(group, f"the group has more than {turn.settings.members_max} members", turn)


def give_up(group: Group, turn: EventContext) -> None:
    """Another broker leads the group now: send everybody there."""
    group.move_to(GroupState.DEAD, turn.now.wall_ms)
    for member in group.members.values():
        answer_join(group, member, JoinGroupResult(ErrorCode.NOT_COORDINATOR, member.member), turn)
        answer_sync(member, SyncGroupResult(ErrorCode.NOT_COORDINATOR), turn)
