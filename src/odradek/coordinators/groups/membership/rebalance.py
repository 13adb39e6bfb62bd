"""Rebalance of a group, and the timers that bound it.

``prepare_rebalance`` makes all members rejoin. ``complete_join`` begins a generation once all have joined or
``JoinTimer`` fires. Members then sync until the leader's assignment is stored or ``SyncTimer`` fires.
``SessionTimer`` belongs to one member, or to one pending member id. Kafka's counterparts of the timers are
DelayedJoin, DelayedSync and DelayedHeartbeat.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from odradek.coordinators.groups.commands import NO_MEMBER, JoinGroupResult, SyncGroupResult
from odradek.coordinators.groups.event_context import EventContext
from odradek.coordinators.groups.group import Group, GroupState, InitialDelay, stored_group
from odradek.coordinators.groups.group_member import NO_REQUEST, GroupMember
from odradek.coordinators.groups.records import group_record
from odradek.model.errors import ErrorCode

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""A client that gives up on a long rebalance joins again with another member id. This bounds how long its
first member id delays the rebalance."""


@dataclass(frozen=True, slots=True)
class SessionTimer:
    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class JoinTimer:
    group_id: str


@dataclass(frozen=True, slots=True)
class SyncTimer:
    group_id: str


# Sessions.


def renew_session(group: Group, member: GroupMember, context: EventContext) -> None:
    context.schedule_timer(SessionTimer(group.group_id, member.member_id), member.session_timeout_ms)


def on_session_expired(group: Group, member_id: str, context: EventContext) -> None:
    if member_id in group.pending_members:
        remove_pending_member(group, member_id, context)
        return
    member = group.members.get(member_id)
    if member is None:
        return
    if member.keeps_session:
        renew_session(group, member, context)
    else:
        remove_member_and_rebalance(group, member, f"session of member {member_id} expired", context)


# Removal of members.


def remove_member_and_rebalance(
    group: Group, member: GroupMember, reason: str, context: EventContext
) -> None:
    """Remove a member that left or failed, and rebalance the others."""
    remove_member(group, member, context)
    if group.state is GroupState.PREPARING_REBALANCE:
        try_complete_join(group, context)
    elif group.can_rebalance and group.state is not GroupState.EMPTY:
        prepare_rebalance(group, reason, context)


def remove_pending_member(group: Group, member_id: str, context: EventContext) -> None:
    group.remove(member_id)
    context.cancel_timer(SessionTimer(group.group_id, member_id))
    if group.state is GroupState.PREPARING_REBALANCE:
        try_complete_join(group, context)


def remove_member(group: Group, member: GroupMember, context: EventContext) -> None:
    """Remove a member without a rebalance."""
    reply_to_join(group, member, JoinGroupResult(ErrorCode.UNKNOWN_MEMBER_ID, NO_MEMBER), context)
    reply_to_sync(member, SyncGroupResult(ErrorCode.UNKNOWN_MEMBER_ID), context)
    remove_pending_sync_member(group, member.member_id, context)
    group.remove(member.member_id)
    context.cancel_timer(SessionTimer(group.group_id, member.member_id))


# Pending requests.


def reply_to_join(group: Group, member: GroupMember, result: JoinGroupResult, context: EventContext) -> None:
    if member.awaits_join:
        context.reply(member.pending_join, result)
        group.stop_joining(member)


def reply_to_sync(member: GroupMember, result: SyncGroupResult, context: EventContext) -> bool:
    """Reply to the pending SyncGroup request, and return whether there was one."""
    if not member.awaits_sync:
        return False
    context.reply(member.pending_sync, result)
    member.pending_sync = NO_REQUEST
    return True


def await_join(group: Group, member: GroupMember, to: object, context: EventContext) -> None:
    """Set the pending JoinGroup request. The client has given up an earlier one of the same member."""
    rejoin = JoinGroupResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
    reply_to_join(group, member, rejoin, context)
    group.start_joining(member, to)


def join_result(group: Group, member: GroupMember, *, with_members: bool) -> JoinGroupResult:
    """Return the result for a member of the current generation."""
    return JoinGroupResult(
        ErrorCode.NONE,
        member.member_id,
        group.generation,
        group.protocol_type,
        group.protocol,
        group.leader or NO_MEMBER,
        group.joined_members() if with_members else (),
    )


# PreparingRebalance.


def rebalance_reason(cause: str, client_reason: str | None) -> str:
    """Return the reason of a rebalance, with the client's own reason if it sent one (KIP-800)."""
    return f"{cause}: {client_reason}" if client_reason else cause


def prepare_rebalance(group: Group, reason: str, context: EventContext) -> None:
    """Make all members rejoin."""
    context.log(
        "rebalance_started",
        group=group.group_id,
        generation=group.generation,
        members=len(group.members),
        reason=reason,
    )
    if group.state is GroupState.COMPLETING_REBALANCE:
        reset_assignments(group, ErrorCode.REBALANCE_IN_PROGRESS, context)
    clear_pending_sync(group, context)
    group.pending_assignment = None
    is_initial = group.state is GroupState.EMPTY
    group.transition_to(GroupState.PREPARING_REBALANCE, context.now.wall_ms)
    if is_initial:
        round_ms = context.settings.initial_rebalance_delay_ms
        remaining_ms = max(group.rebalance_timeout_ms - round_ms, 0)
        group.initial_delay = InitialDelay(round_ms, remaining_ms)
        context.schedule_timer(JoinTimer(group.group_id), round_ms)
    elif group.has_all_joined:
        complete_join(group, context)
    else:
        context.schedule_timer(JoinTimer(group.group_id), group.rebalance_timeout_ms)


def reset_assignments(group: Group, code: ErrorCode, context: EventContext) -> None:
    """Clear the assignments of this generation, and fail the pending SyncGroup requests."""
    for member in group.members.values():
        member.assignment = b""
        if reply_to_sync(member, SyncGroupResult(code), context):
            renew_session(group, member, context)


def clear_pending_sync(group: Group, context: EventContext) -> None:
    if group.pending_sync_members:
        group.pending_sync_members.clear()
        context.cancel_timer(SyncTimer(group.group_id))


def try_complete_join(group: Group, context: EventContext) -> None:
    """Complete the join if all members have joined, unless the initial delay is running."""
    if group.initial_delay is None and group.has_all_joined:
        complete_join(group, context)


def on_join_expired(group: Group, context: EventContext) -> None:
    """Complete the join, or repeat the initial delay if new members joined during it."""
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    delay = group.initial_delay
    if delay is None or not delay.has_new_member or not delay.remaining_ms:
        complete_join(group, context)
        return
    round_ms = min(context.settings.initial_rebalance_delay_ms, delay.remaining_ms)
    group.initial_delay = InitialDelay(round_ms, max(delay.remaining_ms - delay.round_ms, 0))
    context.schedule_timer(JoinTimer(group.group_id), round_ms)


# CompletingRebalance.


def complete_join(group: Group, context: EventContext) -> None:
    """Begin a generation with the members that joined and with static members, which may be away."""
    for member in list(group.members.values()):
        if not member.awaits_join and member.instance_id is None:
            remove_member(group, member, context)
    group.initial_delay = None
    if group.members and not group.elect_leader():
        # No member can lead: wait until sessions expire or a member joins.
        context.schedule_timer(JoinTimer(group.group_id), group.rebalance_timeout_ms)
        return
    context.cancel_timer(JoinTimer(group.group_id))
    group.begin_generation()
    context.log(
        "rebalance_completed",
        group=group.group_id,
        generation=group.generation,
        members=len(group.members),
        protocol=group.protocol,
    )
    if group.members:
        _await_sync(group, context)
    else:
        _become_empty(group, context)


def _await_sync(group: Group, context: EventContext) -> None:
    group.transition_to(GroupState.COMPLETING_REBALANCE, context.now.wall_ms)
    for member in group.members.values():
        is_leader = member.member_id == group.leader
        reply_to_join(group, member, join_result(group, member, with_members=is_leader), context)
        renew_session(group, member, context)
        member.is_new = False
        group.pending_sync_members.add(member.member_id)
    context.schedule_timer(SyncTimer(group.group_id), group.rebalance_timeout_ms)


def _become_empty(group: Group, context: EventContext) -> None:
    group.transition_to(GroupState.EMPTY, context.now.wall_ms)
    context.append([group_record(group.group_id, stored_group(group, {}))], EmptyGroupAppend())


class EmptyGroupAppend:
    """No request waits for this append. If it fails, the previous generation is restored after a failover,
    and the sessions of its members expire."""

    def on_committed(self, context: EventContext) -> None: ...

    def on_failed(self, code: ErrorCode, context: EventContext) -> None: ...

    def on_unloaded(self, context: EventContext) -> None: ...


# Sync.


def remove_pending_sync_member(group: Group, member_id: str, context: EventContext) -> None:
    if member_id in group.pending_sync_members:
        group.pending_sync_members.remove(member_id)
        if not group.pending_sync_members:
            context.cancel_timer(SyncTimer(group.group_id))


def on_sync_expired(group: Group, context: EventContext) -> None:
    """Remove the members that joined this generation but did not send SyncGroup in time."""
    states = (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
    if group.state not in states or not group.pending_sync_members:
        return
    late = [member for name, member in group.members.items() if name in group.pending_sync_members]
    reason = f"{len(late)} of {len(group.members)} members did not sync in time"
    for member in late:
        remove_member(group, member, context)
    prepare_rebalance(group, reason, context)


# Timers.


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


# Load and unload of the group's partition.


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
