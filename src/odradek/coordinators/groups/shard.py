"""The groups of one partition of ``__consumer_offsets``.

Invariant: ``replay`` and ``replay_end_transaction_marker`` alone change durable state (``stored`` and
``offsets`` of each group), and replaying the same log gives the same state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any, Final

from odradek.coordinators.effects import CoordinatorRecord, Effects, Now
from odradek.coordinators.groups.commands import (
    Command,
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    FetchedOffset,
    GroupDescription,
    GroupListing,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    OffsetAndMetadata,
    PartitionsDeleted,
    SyncGroup,
)
from odradek.coordinators.groups.committed_offsets import CommittedOffsets
from odradek.coordinators.groups.deletion import (
    EXPIRATION_TIMER,
    ExpirationTimer,
    handle_delete_group,
    handle_delete_offsets,
    handle_partitions_deleted,
    on_expiration_timer,
)
from odradek.coordinators.groups.event_context import AppendCompletion, EventContext
from odradek.coordinators.groups.group import Group, GroupState, restore_group
from odradek.coordinators.groups.membership.heartbeat import handle_heartbeat
from odradek.coordinators.groups.membership.join_group import handle_join_group
from odradek.coordinators.groups.membership.leave_group import handle_leave_group
from odradek.coordinators.groups.membership.rebalance import (
    JoinTimer,
    SessionTimer,
    SyncTimer,
    on_group_loaded,
    on_group_unloaded,
    on_join_timer,
    on_session_timer,
    on_sync_timer,
)
from odradek.coordinators.groups.membership.sync_group import handle_sync_group
from odradek.coordinators.groups.offset_commit import handle_commit_offsets
from odradek.coordinators.groups.records import (
    GroupKey,
    OffsetKey,
    StoredOffsets,
    read_group,
    read_key,
    read_offset,
)
from odradek.coordinators.groups.settings import GroupSettings
from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_PRODUCER_ID, TopicPartition

CommandHandler = Callable[[dict[str, Group], Any, object, EventContext], None]
"""Takes the groups, a command, its reply handle and the context."""

COMMAND_HANDLERS: Final[dict[type, CommandHandler]] = {
    JoinGroup: handle_join_group,
    SyncGroup: handle_sync_group,
    Heartbeat: handle_heartbeat,
    LeaveGroup: handle_leave_group,
    CommitOffsets: handle_commit_offsets,
    DeleteOffsets: handle_delete_offsets,
    DeleteGroup: handle_delete_group,
    PartitionsDeleted: handle_partitions_deleted,
}

TimerHandler = Callable[[dict[str, Group], Any, EventContext], None]
"""Takes the groups, a timer and the context."""

TIMER_HANDLERS: Final[dict[type, TimerHandler]] = {
    SessionTimer: on_session_timer,
    JoinTimer: on_join_timer,
    SyncTimer: on_sync_timer,
    ExpirationTimer: on_expiration_timer,
}

_UNKNOWN_GROUP: Final = GroupDescription(ErrorCode.NONE, GroupState.DEAD.value, "", "", ())
"""An unknown group is described as Dead, without an error."""


class GroupCoordinatorShard:
    """``settings`` returns the current settings; ``new_id`` returns the unguessable part of a member id."""

    def __init__(self, settings: Callable[[], GroupSettings], new_id: Callable[[], str]) -> None:
        self.groups: dict[str, Group] = {}
        self._settings = settings
        self._new_id = new_id
        self._pending_appends: dict[AppendCompletion, None] = {}
        self._open_transactions: dict[int, set[str]] = {}
        """Groups with offsets in the open transaction of a producer."""
        self._expiration_queue: deque[str] = deque()

    def _context(self, now: Now) -> EventContext:
        return EventContext(now, self._settings, self._new_id, self._pending_appends, self._expiration_queue)

    # Events.

    def handle(self, command: Command, to: object, now: Now) -> Effects:
        context = self._context(now)
        COMMAND_HANDLERS[type(command)](self.groups, command, to, context)
        return context.effects

    def on_timer(self, timer: Hashable, now: Now) -> Effects:
        context = self._context(now)
        TIMER_HANDLERS[type(timer)](self.groups, timer, context)
        return context.effects

    def on_append_committed(self, completion: AppendCompletion, now: Now) -> Effects:
        context = self._context(now)
        if completion in self._pending_appends:
            del self._pending_appends[completion]
            completion.on_committed(context)
        return context.effects

    def on_append_failed(self, completion: AppendCompletion, code: ErrorCode, now: Now) -> Effects:
        context = self._context(now)
        if completion in self._pending_appends:
            del self._pending_appends[completion]
            completion.on_failed(code, context)
        return context.effects

    # Replay.

    def replay(self, record: CoordinatorRecord | StoredOffsets, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply a committed record. A malformed one raises ``BrokerError`` and changes nothing."""
        if isinstance(record, StoredOffsets):
            self._replay_offsets(record.group_id, record.offsets, producer_id, create=True)
            return
        key, value = read_key(record.key), record.value
        if isinstance(key, GroupKey):
            stored = None if value is None else read_group(value)
            group = self._replayed_group(key.group_id, create=stored is not None)
            if group is not None:
                group.stored = stored
        elif isinstance(key, OffsetKey):
            offset = None if value is None else read_offset(value)
            offsets = {TopicPartition(key.topic, key.partition): offset}
            self._replay_offsets(key.group_id, offsets, producer_id, create=offset is not None)

    def _replay_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | None],
        producer_id: int,
        *,
        create: bool,
    ) -> None:
        group = self._replayed_group(group_id, create=create)
        if group is None:
            return
        for partition, offset in offsets.items():
            group.offsets.replay(partition, offset, producer_id)
        if producer_id != NO_PRODUCER_ID:
            self._open_transactions.setdefault(producer_id, set()).add(group_id)

    def _replayed_group(self, group_id: str, *, create: bool) -> Group | None:
        """Return a group; its members are only restored when the partition is loaded."""
        if create and group_id not in self.groups:
            self.groups[group_id] = Group(group_id, None)
        return self.groups.get(group_id)

    def replay_end_transaction_marker(self, producer_id: int, *, commits: bool) -> None:
        for group_id in self._open_transactions.pop(producer_id, ()):
            if group_id in self.groups:
                self.groups[group_id].offsets.end_transaction(producer_id, commits=commits)

    def on_loaded(self, now: Now) -> Effects:
        context = self._context(now)
        replayed, self.groups = self.groups, {}
        for group_id, group in replayed.items():
            if group.stored is not None or not group.offsets.is_empty:
                restored = self.groups[group_id] = restore_group(group_id, group.stored, now.wall_ms)
                restored.offsets = group.offsets
                on_group_loaded(restored, context)
        context.schedule_timer(EXPIRATION_TIMER, context.settings.offsets_check_interval_ms)
        return context.effects

    def on_unloaded(self) -> Effects:
        context = self._context(Now(0, 0))
        for group in self.groups.values():
            on_group_unloaded(group, context)
        for completion in self._pending_appends:
            completion.on_unloaded(context)
        self.groups.clear()
        self._pending_appends.clear()
        return context.effects

    # Queries.

    def fetch_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None, require_stable: bool
    ) -> tuple[ErrorCode, dict[TopicPartition, FetchedOffset]]:
        """Return offsets. An unknown group has none, without an error. A group that is being deleted has them
        until it is gone: a client that gets none would reset its position."""
        group = self.groups.get(group_id)
        offsets = CommittedOffsets() if group is None else group.offsets
        return ErrorCode.NONE, offsets.fetch(partitions, require_stable=require_stable)

    def describe(self, group_id: str) -> GroupDescription:
        """Describe a group. Protocol, metadata and assignments are only valid, and included, when Stable."""
        group = self.groups.get(group_id)
        if group is None:
            return _UNKNOWN_GROUP
        protocol = group.protocol if group.state is GroupState.STABLE else None
        return GroupDescription(
            ErrorCode.NONE,
            group.state.value,
            group.protocol_type,
            protocol or "",
            tuple(member.describe(protocol) for member in group.members.values()),
        )

    def listing(self, states: Collection[str]) -> list[GroupListing]:
        """List the groups in one of these states, compared case-insensitively; without states, all."""
        requested = {state.lower() for state in states}
        return [
            GroupListing(group.group_id, group.protocol_type, group.state.value)
            for group in self.groups.values()
            if not requested or group.state.value.lower() in requested
        ]
