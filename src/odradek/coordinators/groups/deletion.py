"""Deletion of offsets and groups: on request, by expiration, or with their topic.

A group without members is deleted with its last offset. It is Dead from the decision on, so that no other
command intervenes; if the append fails, it is Empty again.

Offsets expire by the rules of Kafka 3.9:

| group | offsets that may expire | retention starts at |
|---|---|---|
| Empty, had members | all | the time the last member left; the commit, if that is unknown |
| Stable, consumers | in topics that no member subscribes to | the commit |
| never had members | all | the commit |
| any other | none | |

An offset with an expiration time set by its client expires at that time, if it may expire at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from odradek.coordinators.append_errors import deletion_error
from odradek.coordinators.effects import CoordinatorRecord
from odradek.coordinators.groups.commands import (
    DeleteGroup,
    DeleteOffsets,
    DeleteOffsetsResult,
    OffsetAndMetadata,
    PartitionsDeleted,
)
from odradek.coordinators.groups.event_context import EventContext
from odradek.coordinators.groups.group import Group, GroupState
from odradek.coordinators.groups.membership.rebalance import remove_pending_member
from odradek.coordinators.groups.records import group_record, offset_record
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.wire.consumer_protocol import PROTOCOL_TYPE

BATCH_KEYS_BYTES_MAX: Final = 256 * 1024
"""The tombstones of a group with very many offsets would exceed the topic's maximum batch size."""

OnDeleted = Callable[[ErrorCode, EventContext], None]
"""Called with NONE once everything is deleted, or with the first error of the log."""


# Commands.


def handle_delete_group(
    groups: dict[str, Group], command: DeleteGroup, to: object, context: EventContext
) -> None:
    group = groups.get(command.group_id)
    code = ErrorCode.GROUP_ID_NOT_FOUND if group is None else _DELETE_GROUP_ERRORS[group.state]
    if group is None or code is not ErrorCode.NONE:
        context.reply(to, code)
        return
    for member_id in list(group.pending_members):
        remove_pending_member(group, member_id, context)

    def on_deleted(code: ErrorCode, context: EventContext) -> None:
        context.reply(to, deletion_error(code))

    delete_partitions(groups, group, group.offsets.partitions(), on_deleted, context)


_DELETE_GROUP_ERRORS: Final[dict[GroupState, ErrorCode]] = {
    GroupState.EMPTY: ErrorCode.NONE,
    GroupState.PREPARING_REBALANCE: ErrorCode.NON_EMPTY_GROUP,
    GroupState.COMPLETING_REBALANCE: ErrorCode.NON_EMPTY_GROUP,
    GroupState.STABLE: ErrorCode.NON_EMPTY_GROUP,
    GroupState.DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


def handle_delete_offsets(
    groups: dict[str, Group], command: DeleteOffsets, to: object, context: EventContext
) -> None:
    group = groups.get(command.group_id)
    code = ErrorCode.GROUP_ID_NOT_FOUND if group is None else validate_delete_offsets(group)
    if group is None or code is not ErrorCode.NONE:
        context.reply(to, DeleteOffsetsResult(code, {}))
        return
    errors = subscription_errors(group, command.partitions)

    def on_deleted(code: ErrorCode, context: EventContext) -> None:
        """Reply with the same result for partitions that had no offset."""
        results = {partition: error or deletion_error(code) for partition, error in errors.items()}
        context.reply(to, DeleteOffsetsResult(ErrorCode.NONE, results))

    deleted = [partition for partition, error in errors.items() if error is ErrorCode.NONE]
    delete_partitions(groups, group, deleted, on_deleted, context)


def validate_delete_offsets(group: Group) -> ErrorCode:
    """Return NONE for Empty groups and groups of consumers: only their unsubscribed topics are known."""
    if group.state is GroupState.EMPTY or group.state is GroupState.DEAD:
        return _DELETE_GROUP_ERRORS[group.state]
    return ErrorCode.NONE if group.protocol_type == PROTOCOL_TYPE else ErrorCode.NON_EMPTY_GROUP


def subscription_errors(
    group: Group, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Return GROUP_SUBSCRIBED_TO_TOPIC for partitions of subscribed topics; for all if those are unknown."""
    if group.state is GroupState.EMPTY:
        return dict.fromkeys(partitions, ErrorCode.NONE)
    subscribed = group.subscribed_topics()
    return {
        partition: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        if subscribed is None or partition.topic in subscribed
        else ErrorCode.NONE
        for partition in partitions
    }


def handle_partitions_deleted(
    groups: dict[str, Group], command: PartitionsDeleted, to: object, context: EventContext
) -> None:
    """Delete the offsets of deleted partitions. The reply does not wait for the log."""
    partitions = frozenset(command.partitions)
    count = 0
    for group in list(groups.values()):
        deleted = group.offsets.partitions_among(partitions)
        if deleted:
            count += len(deleted)
            delete_partitions(groups, group, deleted, _ignore_result, context)
    context.reply(to, count)


# Expiration.


@dataclass(frozen=True, slots=True)
class ExpirationTimer:
    """Timer of the check for expired offsets."""


EXPIRATION_TIMER: Final = ExpirationTimer()

EXPIRATION_OFFSETS_MAX: Final = 1_000
"""Offsets checked in one run of the timer, plus the rest of the last group's, so that a group with many
offsets does not block others. This takes less than a millisecond."""
NEXT_RUN_MS: Final = 1

_NO_TOPICS: Final[frozenset[str]] = frozenset()


def on_expiration_timer(groups: dict[str, Group], _timer: ExpirationTimer, context: EventContext) -> None:
    """Continue the current check for expired offsets, or start the next one."""
    queue = context.expiration_queue
    if not queue:
        queue.extend(groups)
    checked = 0
    while queue and checked < EXPIRATION_OFFSETS_MAX:
        group = groups.get(queue.popleft())
        if group is not None:
            checked += 1 + len(group.offsets)
            delete_expired(groups, group, context)
    delay_ms = NEXT_RUN_MS if queue else context.settings.offsets_check_interval_ms
    context.schedule_timer(EXPIRATION_TIMER, delay_ms)


def delete_expired(groups: dict[str, Group], group: Group, context: EventContext) -> None:
    """Delete the expired offsets of a group, except those with a pending commit."""
    condition = expiration_condition(group)
    if group.state is GroupState.DEAD or condition is None:
        return
    now_ms, retention_ms = context.now.wall_ms, context.settings.offsets_retention_ms
    expired = expired_partitions(group.offsets, condition, now_ms, retention_ms)
    deleted = [partition for partition in expired if not group.offsets.has_pending_commit(partition)]
    if deleted or group.offsets.is_empty:
        delete_partitions(groups, group, deleted, _ignore_result, context)


def _ignore_result(_code: ErrorCode, _context: EventContext) -> None:
    """Ignore a failure: the next expiration check tries again."""


class ExpirationCondition(NamedTuple):
    """Offsets in ``subscribed_topics`` do not expire. Retention starts at ``since_ms``, or at the commit."""

    subscribed_topics: frozenset[str]
    since_ms: int | None


def expiration_condition(group: Group) -> ExpirationCondition | None:
    """Return the condition for a group's offsets; None if they do not expire."""
    if not group.protocol_type:
        return ExpirationCondition(_NO_TOPICS, None)
    if group.state is GroupState.EMPTY:
        return ExpirationCondition(_NO_TOPICS, group.state_since_ms)
    # Subscriptions are known for groups of consumers only.
    subscribed = group.subscribed_topics() if group.state is GroupState.STABLE else None
    return None if subscribed is None else ExpirationCondition(subscribed, None)


def expired_partitions(
    offsets: Iterable[tuple[TopicPartition, OffsetAndMetadata]],
    condition: ExpirationCondition,
    now_ms: int,
    retention_ms: int,
) -> list[TopicPartition]:
    return [
        partition
        for partition, offset in offsets
        if partition.topic not in condition.subscribed_topics
        and now_ms >= _expiration_ms(offset, condition.since_ms, retention_ms)
    ]


def _expiration_ms(offset: OffsetAndMetadata, since_ms: int | None, retention_ms: int) -> int:
    if offset.expire_ms is not None:
        return offset.expire_ms
    return (offset.commit_ms if since_ms is None else since_ms) + retention_ms


# Appends.


def delete_partitions(
    groups: dict[str, Group],
    group: Group,
    partitions: Iterable[TopicPartition],
    on_deleted: OnDeleted,
    context: EventContext,
) -> None:
    """Delete the offsets of these partitions, and the group if it has neither members nor offsets left."""
    deleted = group.offsets.partitions_among(frozenset(partitions))
    records = [offset_record(group.group_id, partition, None) for partition in sorted(deleted)]
    deletes_group = (
        group.state is GroupState.EMPTY
        and not group.pending_members
        and group.offsets.partitions() == deleted
    )
    if deletes_group:
        group.begin_deletion()
        if group.generation > 0 or group.stored is not None:
            # Groups that never had a generation were never stored.
            records.append(group_record(group.group_id, None))
    deletion = Deletion(groups, group if deletes_group else None, on_deleted)
    for batch in batches(records):
        deletion.append(batch, context)
    if not records:
        deletion.finish(context)


def batches(records: Iterable[CoordinatorRecord]) -> list[list[CoordinatorRecord]]:
    """Split tombstones into batches of at most ``BATCH_KEYS_BYTES_MAX``."""
    result: list[list[CoordinatorRecord]] = []
    remaining_bytes = 0
    for record in records:
        remaining_bytes -= len(record.key)
        if remaining_bytes < 0 or not result:
            result.append([])
            remaining_bytes = BATCH_KEYS_BYTES_MAX - len(record.key)
        result[-1].append(record)
    return result


class Deletion:
    """Batches of tombstones with one result. ``group`` is the group that is deleted with them, if any."""

    def __init__(self, groups: dict[str, Group], group: Group | None, on_deleted: OnDeleted) -> None:
        self.groups = groups
        self.group = group
        self.on_deleted = on_deleted
        self.pending_count = 0
        self.code = ErrorCode.NONE

    def append(self, records: list[CoordinatorRecord], context: EventContext) -> None:
        self.pending_count += 1
        context.append(records, DeletionAppend(self))

    def complete_batch(self, code: ErrorCode, context: EventContext) -> None:
        self.pending_count -= 1
        self.code = self.code or code
        if not self.pending_count:
            self.finish(context)

    def finish(self, context: EventContext) -> None:
        if self.group is not None:
            if self.code is ErrorCode.NONE:
                del self.groups[self.group.group_id]
            else:
                self.group.cancel_deletion()
        self.on_deleted(self.code, context)


class DeletionAppend:
    def __init__(self, deletion: Deletion) -> None:
        self.deletion = deletion

    def on_committed(self, context: EventContext) -> None:
        self.deletion.complete_batch(ErrorCode.NONE, context)

    def on_failed(self, code: ErrorCode, context: EventContext) -> None:
        self.deletion.complete_batch(code, context)

    def on_unloaded(self, context: EventContext) -> None:
        self.deletion.complete_batch(ErrorCode.NOT_COORDINATOR, context)
