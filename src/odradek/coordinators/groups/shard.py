"""The groups behind one partition of ``__consumer_offsets``.

Invariant: ``apply`` and ``end_transaction`` alone change what is durable (``stored`` and ``offsets`` of each
group), and a shard that is told the same again knows the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any, Final

from odradek.coordinators.effects import CoordinatorRecord, Effects, Now
from odradek.coordinators.groups import description
from odradek.coordinators.groups.commands import (
    Command,
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    FetchedOffset,
    GroupDescription,
    GroupListing,
    PartitionsDeleted,
)
from odradek.coordinators.groups.committed_offsets import CommittedOffsets
from odradek.coordinators.groups.deletion import delete_group, delete_offsets, expire, forget_topics
from odradek.coordinators.groups.event_context import AppendCompletion, EventContext
from odradek.coordinators.groups.group import Group, restored_group
from odradek.coordinators.groups.membership import lifecycle
from odradek.coordinators.groups.offset_commit import commit
from odradek.coordinators.groups.records import GroupKey, OffsetKey, read_group, read_key, read_offset
from odradek.coordinators.groups.settings import GroupSettings
from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_PRODUCER_ID, TopicPartition

JUDGES: Final[dict[type, lifecycle.Judge]] = {
    **lifecycle.JUDGES,
    CommitOffsets: commit,
    DeleteOffsets: delete_offsets,
    DeleteGroup: delete_group,
    PartitionsDeleted: forget_topics,
}
"""Which function judges which command."""

EXPIRATION_TIMER: Final = "expiry"
"""The timer that looks for old offsets."""

EXPIRY_OFFSETS_MAX: Final = 1_000
"""Offsets that are looked at in one turn, and the rest of the last group's: whoever has many must not keep
all others waiting. This takes less than a millisecond."""
NEXT_TURN_MS: Final = 1


class GroupCoordinatorShard:
    """``settings`` is asked for what holds now; ``new_id`` gives the part of a member's id that nobody can
    guess."""

    def __init__(self, settings: Callable[[], GroupSettings], new_id: Callable[[], str]) -> None:
        self.groups: dict[str, Group] = {}
        self._settings = settings
        self._new_id = new_id
        self._pending_appends: dict[AppendCompletion, None] = {}
        self._in_transactions: dict[int, set[str]] = {}
        """Groups with offsets in the open transaction of a producer."""
        self._to_expire: deque[str] = deque()

    def _turn(self, now: Now) -> EventContext:
        return EventContext(now, self._settings, self._new_id, self._pending_appends)

    # Commands, timers, and what became of writes.

    def handle(self, command: Command, to: Any, now: Now) -> Effects:
        turn = self._turn(now)
        JUDGES[type(command)](self.groups, command, to, turn)
        return turn.effects

    def on_timer(self, timer: Hashable, now: Now) -> Effects:
        turn = self._turn(now)
        if timer == EXPIRATION_TIMER:
            self._expire(turn)
        else:
            lifecycle.fired(self.groups, timer, turn)
        return turn.effects

    def on_append_committed(self, completion: AppendCompletion, now: Now) -> Effects:
        turn = self._turn(now)
        if completion in self._pending_appends:
            del self._pending_appends[completion]
            completion.committed(turn)
        return turn.effects

    def on_append_failed(self, completion: AppendCompletion, code: ErrorCode, now: Now) -> Effects:
        turn = self._turn(now)
        if completion in self._pending_appends:
            del self._pending_appends[completion]
            completion.refused(code, turn)
        return turn.effects

    def _expire(self, turn: EventContext) -> None:
        """Go on where the last turn left off, or begin anew."""
        waiting = self._to_expire
        if not waiting:
            waiting.extend(self.groups)
        looked_at = 0
        while waiting and looked_at < EXPIRY_OFFSETS_MAX:
            group = self.groups.get(waiting.popleft())
            if group is not None:
                looked_at += 1 + len(group.offsets)
                expire(self.groups, group, turn)
        turn.arm(EXPIRATION_TIMER, NEXT_TURN_MS if waiting else turn.settings.offsets_check_interval_ms)

    # What the log says.

    def replay(self, entry: CoordinatorRecord, producer_id: int = NO_PRODUCER_ID) -> None:
        """Bytes that cannot be read raise ``BrokerError``, and change nothing."""
        key, value = read_key(entry.key), entry.value
        if isinstance(key, GroupKey):
            stored = None if value is None else read_group(value)
            group = self._known(key.group, is_told=stored is not None)
            if group is not None:
                group.stored = stored
        elif isinstance(key, OffsetKey):
            offset = None if value is None else read_offset(value)
            group = self._known(key.group, is_told=offset is not None)
            if group is not None:
                group.offsets.apply(TopicPartition(key.topic, key.partition), offset, producer_id)
                if producer_id != NO_PRODUCER_ID:
                    self._in_transactions.setdefault(producer_id, set()).add(key.group)

    def _known(self, name: str, *, is_told: bool) -> Group | None:
        """A group that is told of is known from then on. Its members come to life when all is loaded."""
        if is_told and name not in self.groups:
            self.groups[name] = Group(name, None)
        return self.groups.get(name)

    def replay_end_transaction_marker(self, producer_id: int, *, commits: bool) -> None:
        for name in self._in_transactions.pop(producer_id, ()):
            if name in self.groups:
                self.groups[name].offsets.end_transaction(producer_id, commits=commits)

    def on_loaded(self, now: Now) -> Effects:
        turn = self._turn(now)
        known, self.groups = self.groups, {}
        for name, group in known.items():
            if group.stored is not None or not group.offsets.is_empty:
                alive = self.groups[name] = restored_group(name, group.stored, now.wall_ms)
                alive.offsets = group.offsets
                lifecycle.take_up(alive, turn)
        turn.arm(EXPIRATION_TIMER, turn.settings.offsets_check_interval_ms)
        return turn.effects

    def on_unloaded(self) -> Effects:
        turn = self._turn(Now(0, 0))
        for group in self.groups.values():
            lifecycle.give_up(group, turn)
        for outcome in self._pending_appends:
            outcome.abandoned(turn)
        self.groups.clear()
        self._pending_appends.clear()
        return turn.effects

    # Questions.

    def fetch_offsets(
        self, group: str, partitions: Iterable[TopicPartition] | None, require_stable: bool
    ) -> tuple[ErrorCode, dict[TopicPartition, FetchedOffset]]:
        """A group nobody knows has no offsets, and that is no error. One that is about to go has them until
        it is gone: who is told that there are none begins anew somewhere."""
        found = self.groups.get(group)
        offsets = CommittedOffsets() if found is None else found.offsets
        return ErrorCode.NONE, offsets.fetch(partitions, require_stable=require_stable)

    def describe(self, group: str) -> GroupDescription:
        return description.describe(self.groups.get(group))

    def listing(self, states: Collection[str]) -> list[GroupListing]:
        return description.listing(self.groups.values(), states)
