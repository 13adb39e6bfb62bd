"""How a group comes to its next generation, and the timers that keep it from waiting for ever.

``prepare`` asks all members to join; ``complete_join`` ends that when all have, or when ``JoinTimer`` fires,
and begins a generation; members then sync until the leader's assignment is stored, or until ``SyncTimer``
fires. ``SessionTimer`` belongs to one member, or to one id that was handed out and is not used yet.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from odradek.coordinators.groups.commands import NO_MEMBER, JoinGroupResult, SyncGroupResult
from odradek.coordinators.groups.event_context import EventContext
from odradek.coordinators.groups.group import Group, GroupState, InitialDelay
from odradek.coordinators.groups.group_member import NOBODY, GroupMember
from odradek.coordinators.groups.records import group_entry
from odradek.model.errors import ErrorCode

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""A client that gave up on a long rebalance joins anew, under another id. This is how long its first id
stands in the way."""


class SessionTimer(NamedTuple):
    group: str
    member: str


class JoinTimer(NamedTuple):
    group: str


class SyncTimer(NamedTuple):
    group: str


# Sessions.


def renew_session(group: Group, member: GroupMember, turn: EventContext) -> None:
    turn.arm(SessionTimer(group.name, member.member), member.session_timeout_ms)


def session_ended(group: Group, name: str, turn: EventContext) -> None:
    if name in group.pending:
        remove_pending(group, name, turn)
        return
    member = group.members.get(name)
    if member is None:
        return
    if member.is_excused:
        renew_session(group, member, turn)
    else:
        remove_member(group, member, f"session of member {name} expired", turn)


# Members that go.


def remove_member(group: Group, member: GroupMember, reason: str, turn: EventContext) -> None:
    """A member leaves or failed: whoever waits for it is told, and the others share anew."""
    dismiss(group, member, turn)
    if group.state is GroupState.PREPARING_REBALANCE:
        try_complete_join(group, turn)
    elif group.can_rebalance and group.state is not GroupState.EMPTY:
        prepare(group, reason, turn)


def remove_pending(group: Group, name: str, turn: EventContext) -> None:
    group.remove(name)
    turn.disarm(SessionTimer(group.name, name))
    if group.state is GroupState.PREPARING_REBALANCE:
        try_complete_join(group, turn)


def dismiss(group: Group, member: GroupMember, turn: EventContext) -> None:
    """Take a member out and do nothing about the others."""
    answer_join(group, member, JoinGroupResult(ErrorCode.UNKNOWN_MEMBER_ID, NO_MEMBER), turn)
    answer_sync(member, SyncGroupResult(ErrorCode.UNKNOWN_MEMBER_ID), turn)
    group.remove(member.member)
    turn.disarm(SessionTimer(group.name, member.member))


# Those who wait.


def answer_join(group: Group, member: GroupMember, answer: JoinGroupResult, turn: EventContext) -> None:
    if member.awaits_join:
        turn.reply(member.joining, answer)
        group.stop_joining(member)


def answer_sync(member: GroupMember, answer: SyncGroupResult, turn: EventContext) -> bool:
    """True if somebody waited."""
    if not member.awaits_sync:
        return False
    turn.reply(member.syncing, answer)
    member.syncing = NOBODY
    return True


def await_join(group: Group, member: GroupMember, to: object, turn: EventContext) -> None:
    """An earlier join of the same member has been given up by its client."""
    answer_join(group, member, JoinGroupResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member), turn)
    group.start_joining(member, to)


def joined(group: Group, member: GroupMember, *, tells_members: bool) -> JoinGroupResult:
    """What a member of the current generation is told."""
    return JoinGroupResult(
        ErrorCode.NONE,
        member.member,
        group.generation,
        group.protocol_type,
        group.protocol,
        group.leader or NO_MEMBER,
        group.joined_members() if tells_members else (),
    )


# Preparing.


def because(what: str, client_reason: str | None) -> str:
    """Return the reason of a rebalance, with what the client said of it."""
    return f"{what}: {client_reason}" if client_reason else what


def prepare(group: Group, reason: str, turn: EventContext) -> None:
    """Ask all members to join again."""
    turn.log(
        "rebalance_started",
        group=group.name,
        generation=group.generation,
        members=len(group.members),
        reason=reason,
    )
    if group.state is GroupState.COMPLETING_REBALANCE:
        drop_assignments(group, ErrorCode.REBALANCE_IN_PROGRESS, turn)
    expect_no_sync(group, turn)
    group.storing = None
    is_initial = group.state is GroupState.EMPTY
    group.move_to(GroupState.PREPARING_REBALANCE, turn.now.wall_ms)
    if is_initial:
        round_ms = turn.settings.initial_rebalance_delay_ms
        remaining_ms = max(group.rebalance_timeout_ms - round_ms, 0)
        group.initial_delay = InitialDelay(round_ms, remaining_ms)
        turn.arm(JoinTimer(group.name), round_ms)
    elif group.has_all_joined:
        complete_join(group, turn)
    else:
        turn.arm(JoinTimer(group.name), group.rebalance_timeout_ms)


def drop_assignments(group: Group, code: ErrorCode, turn: EventContext) -> None:
    """This generation comes to nothing: tell those who wait for their assignment."""
    for member in group.members.values():
        member.assignment = b""
        if answer_sync(member, SyncGroupResult(code), turn):
            renew_session(group, member, turn)


def expect_no_sync(group: Group, turn: EventContext) -> None:
    if group.unsynced:
        group.unsynced.clear()
        turn.disarm(SyncTimer(group.name))


def try_complete_join(group: Group, turn: EventContext) -> None:
    """A new group waits its delay out; any other goes on as soon as all are there."""
    if group.initial_delay is None and group.has_all_joined:
        complete_join(group, turn)


def join_ended(group: Group, turn: EventContext) -> None:
    """The time to join is up. A new group takes another round if members came in the last one."""
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    delay = group.initial_delay
    if delay is None or not delay.has_new_member or not delay.remaining_ms:
        complete_join(group, turn)
        return
    round_ms = min(turn.settings.initial_rebalance_delay_ms, delay.remaining_ms)
    group.initial_delay = InitialDelay(round_ms, max(delay.remaining_ms - delay.round_ms, 0))
    turn.arm(JoinTimer(group.name), round_ms)


# Completing.


def complete_join(group: Group, turn: EventContext) -> None:
    """Go on with those who joined, and with static members, which may be away for a while."""
    for member in list(group.members.values()):
        if not member.awaits_join and member.instance is None:
            dismiss(group, member, turn)
    group.initial_delay = None
    if group.members and not group.elect_leader():
        # Nobody is there to lead: wait on, until sessions end or somebody joins.
        turn.arm(JoinTimer(group.name), group.rebalance_timeout_ms)
        return
    turn.disarm(JoinTimer(group.name))
    group.begin_generation()
    turn.log(
        "rebalance_completed",
        group=group.name,
        generation=group.generation,
        members=len(group.members),
        protocol=group.protocol,
    )
    if group.members:
        _complete(group, turn)
    else:
        _become_empty(group, turn)


def _complete(group: Group, turn: EventContext) -> None:
    group.move_to(GroupState.COMPLETING_REBALANCE, turn.now.wall_ms)
    for member in group.members.values():
        leads = member.member == group.leader
        answer_join(group, member, joined(group, member, tells_members=leads), turn)
        renew_session(group, member, turn)
        member.is_new = False
        group.unsynced.add(member.member)
    turn.arm(SyncTimer(group.name), group.rebalance_timeout_ms)


def _become_empty(group: Group, turn: EventContext) -> None:
    group.move_to(GroupState.EMPTY, turn.now.wall_ms)
    turn.append([group_entry(group.name, group.to_store({}))], EmptyGroupStored())


class EmptyGroupStored:
    """Nobody waits for it. If it is not written, the generation before comes to life after a failover, and
    its members fail to keep their sessions."""

    def committed(self, turn: EventContext) -> None: ...

    def refused(self, code: ErrorCode, turn: EventContext) -> None: ...

    def abandoned(self, turn: EventContext) -> None: ...


# Syncing.


def has_synced(group: Group, name: str, turn: EventContext) -> None:
    if name in group.unsynced:
        group.unsynced.remove(name)
        if not group.unsynced:
            turn.disarm(SyncTimer(group.name))


def sync_ended(group: Group, turn: EventContext) -> None:
    """Members that took part in the rebalance and never asked for their assignment are gone."""
    if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) or not group.unsynced:
        return
    late = [each for name, each in group.members.items() if name in group.unsynced]
    reason = f"{len(late)} of {len(group.members)} members did not sync in time"
    for member in late:
        dismiss(group, member, turn)
    prepare(group, reason, turn)
