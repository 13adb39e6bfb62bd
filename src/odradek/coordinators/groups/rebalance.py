"""How a group comes to its next generation, and the timers that keep it from waiting for ever.

``prepare`` asks all members to join; ``complete_join`` ends that when all have, or when ``JoinEnds`` fires,
and begins a generation; members then sync until the leader's assignment is stored, or until ``SyncEnds``
fires. ``SessionEnds`` belongs to one member, or to one id that was handed out and is not used yet.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from odradek.coordinators.groups.commands import NO_MEMBER, Joined, Synced
from odradek.coordinators.groups.group import Group, InitialDelay, State
from odradek.coordinators.groups.members import NOBODY, Member
from odradek.coordinators.groups.records import group_entry
from odradek.coordinators.groups.turn import Turn
from odradek.model.errors import ErrorCode

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""A client that gave up on a long rebalance joins anew, under another id. This is how long its first id
stands in the way."""


class SessionEnds(NamedTuple):
    group: str
    member: str


class JoinEnds(NamedTuple):
    group: str


class SyncEnds(NamedTuple):
    group: str


# Sessions.


def renew_session(group: Group, member: Member, turn: Turn) -> None:
    turn.arm(SessionEnds(group.name, member.member), member.session_timeout_ms)


def session_ended(group: Group, name: str, turn: Turn) -> None:
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


def remove_member(group: Group, member: Member, reason: str, turn: Turn) -> None:
    """A member leaves or failed: whoever waits for it is told, and the others share anew."""
    dismiss(group, member, turn)
    if group.state is State.PREPARING_REBALANCE:
        try_complete_join(group, turn)
    elif group.can_rebalance and group.state is not State.EMPTY:
        prepare(group, reason, turn)


def remove_pending(group: Group, name: str, turn: Turn) -> None:
    group.remove(name)
    turn.disarm(SessionEnds(group.name, name))
    if group.state is State.PREPARING_REBALANCE:
        try_complete_join(group, turn)


def dismiss(group: Group, member: Member, turn: Turn) -> None:
    """Take a member out and do nothing about the others."""
    answer_join(group, member, Joined(ErrorCode.UNKNOWN_MEMBER_ID, NO_MEMBER), turn)
    answer_sync(member, Synced(ErrorCode.UNKNOWN_MEMBER_ID), turn)
    group.remove(member.member)
    turn.disarm(SessionEnds(group.name, member.member))


# Those who wait.


def answer_join(group: Group, member: Member, answer: Joined, turn: Turn) -> None:
    if member.awaits_join:
        turn.reply(member.joining, answer)
        group.stop_joining(member)


def answer_sync(member: Member, answer: Synced, turn: Turn) -> bool:
    """True if somebody waited."""
    if not member.awaits_sync:
        return False
    turn.reply(member.syncing, answer)
    member.syncing = NOBODY
    return True


def await_join(group: Group, member: Member, to: object, turn: Turn) -> None:
    """An earlier join of the same member has been given up by its client."""
    answer_join(group, member, Joined(ErrorCode.REBALANCE_IN_PROGRESS, member.member), turn)
    group.start_joining(member, to)


def joined(group: Group, member: Member, *, tells_members: bool) -> Joined:
    """What a member of the current generation is told."""
    return Joined(
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


def prepare(group: Group, reason: str, turn: Turn) -> None:
    """Ask all members to join again."""
    turn.log(
        "rebalance_started",
        group=group.name,
        generation=group.generation,
        members=len(group.members),
        reason=reason,
    )
    if group.state is State.COMPLETING_REBALANCE:
        drop_assignments(group, ErrorCode.REBALANCE_IN_PROGRESS, turn)
    expect_no_sync(group, turn)
    group.storing = None
    is_initial = group.state is State.EMPTY
    group.move_to(State.PREPARING_REBALANCE, turn.now.wall_ms)
    if is_initial:
        round_ms = turn.settings.initial_rebalance_delay_ms
        remaining_ms = max(group.rebalance_timeout_ms - round_ms, 0)
        group.initial_delay = InitialDelay(round_ms, remaining_ms)
        turn.arm(JoinEnds(group.name), round_ms)
    elif group.has_all_joined:
        complete_join(group, turn)
    else:
        turn.arm(JoinEnds(group.name), group.rebalance_timeout_ms)


def drop_assignments(group: Group, code: ErrorCode, turn: Turn) -> None:
    """This generation comes to nothing: tell those who wait for their assignment."""
    for member in group.members.values():
        member.assignment = b""
        if answer_sync(member, Synced(code), turn):
            renew_session(group, member, turn)


def expect_no_sync(group: Group, turn: Turn) -> None:
    if group.unsynced:
        group.unsynced.clear()
        turn.disarm(SyncEnds(group.name))


def try_complete_join(group: Group, turn: Turn) -> None:
    """A new group waits its delay out; any other goes on as soon as all are there."""
    if group.initial_delay is None and group.has_all_joined:
        complete_join(group, turn)


def join_ended(group: Group, turn: Turn) -> None:
    """The time to join is up. A new group takes another round if members came in the last one."""
    if group.state is not State.PREPARING_REBALANCE:
        return
    delay = group.initial_delay
    if delay is None or not delay.has_new_member or not delay.remaining_ms:
        complete_join(group, turn)
        return
    round_ms = min(turn.settings.initial_rebalance_delay_ms, delay.remaining_ms)
    group.initial_delay = InitialDelay(round_ms, max(delay.remaining_ms - delay.round_ms, 0))
    turn.arm(JoinEnds(group.name), round_ms)


# Completing.


def complete_join(group: Group, turn: Turn) -> None:
    """Go on with those who joined, and with static members, which may be away for a while."""
    for member in list(group.members.values()):
        if not member.awaits_join and member.instance is None:
            dismiss(group, member, turn)
    group.initial_delay = None
    if group.members and not group.elect_leader():
        # Nobody is there to lead: wait on, until sessions end or somebody joins.
        turn.arm(JoinEnds(group.name), group.rebalance_timeout_ms)
        return
    turn.disarm(JoinEnds(group.name))
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


def _complete(group: Group, turn: Turn) -> None:
    group.move_to(State.COMPLETING_REBALANCE, turn.now.wall_ms)
    for member in group.members.values():
        leads = member.member == group.leader
        answer_join(group, member, joined(group, member, tells_members=leads), turn)
        renew_session(group, member, turn)
        member.is_new = False
        group.unsynced.add(member.member)
    turn.arm(SyncEnds(group.name), group.rebalance_timeout_ms)


def _become_empty(group: Group, turn: Turn) -> None:
    group.move_to(State.EMPTY, turn.now.wall_ms)
    turn.append([group_entry(group.name, group.to_store({}))], EmptyGroupStored())


class EmptyGroupStored:
    """Nobody waits for it. If it is not written, the generation before comes to life after a failover, and
    its members fail to keep their sessions."""

    def committed(self, turn: Turn) -> None: ...

    def refused(self, code: ErrorCode, turn: Turn) -> None: ...

    def abandoned(self, turn: Turn) -> None: ...


# Syncing.


def has_synced(group: Group, name: str, turn: Turn) -> None:
    if name in group.unsynced:
        group.unsynced.remove(name)
        if not group.unsynced:
            turn.disarm(SyncEnds(group.name))


def sync_ended(group: Group, turn: Turn) -> None:
    """Members that took part in the rebalance and never asked for their assignment are gone."""
    if group.state not in (State.COMPLETING_REBALANCE, State.STABLE) or not group.unsynced:
        return
    late = [each for name, each in group.members.items() if name in group.unsynced]
    reason = f"{len(late)} of {len(group.members)} members did not sync in time"
    for member in late:
        dismiss(group, member, turn)
    prepare(group, reason, turn)
