"""Members of a group when its partition is loaded or unloaded, and their timers."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.coordinators.groups.commands import JoinGroupResult, SyncGroupResult
from odradek.coordinators.groups.event_context import EventContext
from odradek.coordinators.groups.group import Group, GroupState
from odradek.coordinators.groups.membership.rebalance import (
    JoinTimer,
    SessionTimer,
    SyncTimer,
    on_join_expired,
    on_session_expired,
    on_sync_expired,
    prepare_rebalance,
    renew_session,
    reply_to_join,
    reply_to_sync,
)
from odradek.model.errors import ErrorCode


def on_session_timer(groups: Mapping[str, Group], timer: SessionTimer, context: EventContext) -> None:
    group = _live_group(groups, timer.group_id)
    if group is not None:
        on_session_expired(group, timer.member_id, context)


def on_join_timer(groups: Mapping[str, Group], timer: JoinTimer, context: EventContext) -> None:
    group = _live_group(groups, timer.group_id)
    if group is not None:
        on_join_expired(group, context)


def on_sync_timer(groups: Mapping[str, Group], timer: SyncTimer, context: EventContext) -> None:
    group = _live_group(groups, timer.group_id)
    if group is not None:
        on_sync_expired(group, context)


def _live_group(groups: Mapping[str, Group], group_id: str) -> Group | None:
    """Return a group, unless it is deleted or being deleted."""
    group = groups.get(group_id)
    return None if group is None or group.state is GroupState.DEAD else group


def on_group_loaded(group: Group, context: EventContext) -> None:
    """Start the members' sessions. A group that exceeds the current ``group.max.size`` rebalances, so that
    the members it loses can commit before."""
    for member in group.members.values():
        renew_session(group, member, context)
    members_max = context.settings.members_max
    if len(group.members) > members_max:
        prepare_rebalance(group, f"the group has more than {members_max} members", context)


def on_group_unloaded(group: Group, context: EventContext) -> None:
    """Reply to all waiting members with NOT_COORDINATOR: another broker leads the group now."""
    group.transition_to(GroupState.DEAD, context.now.wall_ms)
    for member in group.members.values():
        result = JoinGroupResult(ErrorCode.NOT_COORDINATOR, member.member_id)
        reply_to_join(group, member, result, context)
        reply_to_sync(member, SyncGroupResult(ErrorCode.NOT_COORDINATOR), context)
