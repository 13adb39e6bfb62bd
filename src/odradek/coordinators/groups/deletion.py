"""How offsets go, and groups with them: deleted, expired, or with their topic.

A group without members whose last offset goes is of no use to anybody, and goes too. It is Dead from when
that is decided, so that nothing comes in between; if the log does not take it, the group is there again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from odradek.coordinators.append_errors import removal_error
from odradek.coordinators.effects import CoordinatorRecord
from odradek.coordinators.groups.commands import (
    DeleteGroup,
    DeleteOffsets,
    DeleteOffsetsResult,
    PartitionsDeleted,
)
from odradek.coordinators.groups.event_context import EventContext
from odradek.coordinators.groups.group import Group, GroupState
from odradek.coordinators.groups.membership.rebalance import remove_pending
from odradek.coordinators.groups.offset_expiration import expired, rule_of
from odradek.coordinators.groups.records import group_entry, offset_entry
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.wire.consumer_protocol import PROTOCOL_TYPE

BATCH_KEYS_BYTES_MAX: Final = 256 * 1024
"""A group with very many offsets does not go in one batch: the log would not take it."""

Answer = Callable[[ErrorCode, EventContext], None]
"""Told NONE once everything is gone, or the first error, of the log's."""


# Commands.


def delete_group(groups: dict[str, Group], command: DeleteGroup, to: Any, turn: EventContext) -> None:
    group = groups.get(command.group)
    code = ErrorCode.GROUP_ID_NOT_FOUND if group is None else _GROUP_REFUSAL[group.state]
    if group is None or code is not ErrorCode.NONE:
        turn.reply(to, code)
        return
    for name in list(group.pending):
        remove_pending(group, name, turn)

    def answer(code: ErrorCode, turn: EventContext) -> None:
        turn.reply(to, removal_error(code))

    remove(groups, group, group.offsets.known(), answer, turn)


_GROUP_REFUSAL: Final[dict[GroupState, ErrorCode]] = {
    GroupState.EMPTY: ErrorCode.NONE,
    GroupState.PREPARING_REBALANCE: ErrorCode.NON_EMPTY_GROUP,
    GroupState.COMPLETING_REBALANCE: ErrorCode.NON_EMPTY_GROUP,
    GroupState.STABLE: ErrorCode.NON_EMPTY_GROUP,
    GroupState.DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


def delete_offsets(groups: dict[str, Group], command: DeleteOffsets, to: Any, turn: EventContext) -> None:
    group = groups.get(command.group)
    code = ErrorCode.GROUP_ID_NOT_FOUND if group is None else offsets_refusal(group)
    if group is None or code is not ErrorCode.NONE:
        turn.reply(to, DeleteOffsetsResult(code, {}))
        return
    errors = topic_errors(group, command.partitions)

    def answer(code: ErrorCode, turn: EventContext) -> None:
        """A partition without an offset is as good as one whose offset went."""
        told = {one: error or removal_error(code) for one, error in errors.items()}
        turn.reply(to, DeleteOffsetsResult(ErrorCode.NONE, told))

    going = [partition for partition, error in errors.items() if error is ErrorCode.NONE]
    remove(groups, group, going, answer, turn)


def offsets_refusal(group: Group) -> ErrorCode:
    """Of a group with members, only one of consumers can tell which topics it does not need."""
    if group.state is GroupState.EMPTY or group.state is GroupState.DEAD:
        return _GROUP_REFUSAL[group.state]
    return ErrorCode.NONE if group.protocol_type == PROTOCOL_TYPE else ErrorCode.NON_EMPTY_GROUP


def topic_errors(group: Group, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
    """While nobody can tell what members subscribe to, it may be any topic."""
    if group.state is GroupState.EMPTY:
        return dict.fromkeys(partitions, ErrorCode.NONE)
    subscribed = group.subscribed_topics()
    return {
        partition: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        if subscribed is None or partition.topic in subscribed
        else ErrorCode.NONE
        for partition in partitions
    }


def forget_topics(groups: dict[str, Group], command: PartitionsDeleted, to: Any, turn: EventContext) -> None:
    """Answered at once, with how many are about to go: nobody waits for the log here."""
    partitions = frozenset(command.partitions)
    count = 0
    for group in list(groups.values()):
        going = group.offsets.known_among(partitions)
        if going:
            count += len(going)
            remove(groups, group, going, _tell_nobody, turn)
    turn.reply(to, count)


def expire(groups: dict[str, Group], group: Group, turn: EventContext) -> None:
    """Remove what is too old; what is about to be committed anew is not."""
    rule = rule_of(group)
    if group.state is GroupState.DEAD or rule is None:
        return
    now_ms, retention_ms = turn.now.wall_ms, turn.settings.offsets_retention_ms
    old = expired(group.offsets, rule, now_ms, retention_ms)
    going = [partition for partition in old if not group.offsets.is_unsettled(partition)]
    if going or group.offsets.is_empty:
        remove(groups, group, going, _tell_nobody, turn)


def _tell_nobody(_code: ErrorCode, _turn: EventContext) -> None:
    """The next look for old offsets tries again."""


# The doing.


def remove(
    groups: dict[str, Group],
    group: Group,
    partitions: Iterable[TopicPartition],
    answer: Answer,
    turn: EventContext,
) -> None:
    """Remove these offsets, as far as there are any, and the group if it is left with nothing."""
    going = group.offsets.known_among(frozenset(partitions))
    entries = [offset_entry(group.name, partition, None) for partition in sorted(going)]
    dies = group.state is GroupState.EMPTY and not group.pending and group.offsets.known() == going
    if dies:
        group.condemn()
        if group.generation > 0 or group.stored is not None:
            # Groups that never had a generation were never stored.
            entries.append(group_entry(group.name, None))
    removal = Removal(groups, group if dies else None, answer)
    for batch in batches(entries):
        removal.append(batch, turn)
    if not entries:
        removal.finish(turn)


def batches(entries: Iterable[CoordinatorRecord]) -> list[list[CoordinatorRecord]]:
    """Entries without values, in batches that a log takes."""
    found: list[list[CoordinatorRecord]] = []
    room_bytes = 0
    for entry in entries:
        room_bytes -= len(entry.key)
        if room_bytes < 0 or not found:
            found.append([])
            room_bytes = BATCH_KEYS_BYTES_MAX - len(entry.key)
        found[-1].append(entry)
    return found


class Removal:
    """Several batches, and one answer. ``dying`` is the group that goes with them, if it does."""

    def __init__(self, groups: dict[str, Group], dying: Group | None, answer: Answer) -> None:
        self.groups = groups
        self.dying = dying
        self.answer = answer
        self.open_count = 0
        self.code = ErrorCode.NONE

    def append(self, entries: list[CoordinatorRecord], turn: EventContext) -> None:
        self.open_count += 1
        turn.append(entries, BatchRemoved(self))

    def batch_ended(self, code: ErrorCode, turn: EventContext) -> None:
        self.open_count -= 1
        self.code = self.code or code
        if not self.open_count:
            self.finish(turn)

    def finish(self, turn: EventContext) -> None:
        if self.dying is not None:
            if self.code is ErrorCode.NONE:
                del self.groups[self.dying.name]
            else:
                self.dying.spare()
        self.answer(self.code, turn)


class BatchRemoved:
    def __init__(self, removal: Removal) -> None:
        self.removal = removal

    def committed(self, turn: EventContext) -> None:
        self.removal.batch_ended(ErrorCode.NONE, turn)

    def refused(self, code: ErrorCode, turn: EventContext) -> None:
        self.removal.batch_ended(code, turn)

    def abandoned(self, turn: EventContext) -> None:
        self.removal.batch_ended(ErrorCode.NOT_COORDINATOR, turn)
