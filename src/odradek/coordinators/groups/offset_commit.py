"""OffsetCommit and TxnOffsetCommit: offsets are appended in one batch, and count once that is committed.

Commits of the same partition that are under way together count in the order of the log, the last one longest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odradek.coordinators.append_errors import commit_error
from odradek.coordinators.effects import ProducerIdAndEpoch
from odradek.coordinators.groups.commands import CommitOffsets, CommitOffsetsResult
from odradek.coordinators.groups.committed_offsets import CommittedOffsets
from odradek.coordinators.groups.event_context import EventContext
from odradek.coordinators.groups.group import Group
from odradek.coordinators.groups.membership.heartbeat import commit_refusal, has_committed
from odradek.coordinators.groups.records import offset_entry
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition


def commit(groups: dict[str, Group], command: CommitOffsets, to: Any, turn: EventContext) -> None:
    group = groups.get(command.group)
    is_transactional = command.producer_id >= 0
    if group is None and command.generation >= 0 and not is_transactional:
        # It had members once, or never will.
        _refuse(command, ErrorCode.ILLEGAL_GENERATION, to, turn)
        return
    group = group or Group(command.group, turn.now.wall_ms)
    code = commit_refusal(group, command)
    if code is not ErrorCode.NONE:
        _refuse(command, code, to, turn)
        return
    has_committed(group, command, turn)
    errors = metadata_errors(command, turn.settings.offset_metadata_bytes_max)
    written = [partition for partition, error in errors.items() if error is ErrorCode.NONE]
    if not written:
        turn.reply(to, CommitOffsetsResult(errors))
        return
    groups[command.group] = group
    entries = [offset_entry(group.name, partition, command.offsets[partition]) for partition in written]
    producer = ProducerIdAndEpoch(command.producer_id, command.producer_epoch) if is_transactional else None
    turn.append(entries, OffsetsStored(group.offsets, errors, to), producer)


def _refuse(command: CommitOffsets, code: ErrorCode, to: Any, turn: EventContext) -> None:
    turn.reply(to, CommitOffsetsResult(dict.fromkeys(command.offsets, code)))


def metadata_errors(command: CommitOffsets, length_max: int) -> dict[TopicPartition, ErrorCode]:
    """One offset with too much metadata does not hold up the others."""
    return {
        partition: ErrorCode.NONE
        if _java_length(offset.metadata) <= length_max
        else ErrorCode.OFFSET_METADATA_TOO_LARGE
        for partition, offset in command.offsets.items()
    }


def _java_length(text: str) -> int:
    """Kafka counts what its strings are made of, UTF-16, whatever its setting is called."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


class OffsetsStored:
    """``errors`` has those that were not written, and NONE for those that were."""

    def __init__(
        self, offsets: CommittedOffsets, errors: Mapping[TopicPartition, ErrorCode], to: Any
    ) -> None:
        self.offsets = offsets
        self.errors = errors
        self.to = to
        self.written = [partition for partition, error in errors.items() if error is ErrorCode.NONE]
        offsets.begin(self.written)

    def committed(self, turn: EventContext) -> None:
        self.offsets.end(self.written)
        turn.reply(self.to, CommitOffsetsResult(self.errors))

    def refused(self, code: ErrorCode, turn: EventContext) -> None:
        self.offsets.end(self.written)
        self._answer(commit_error(code), turn)

    def abandoned(self, turn: EventContext) -> None:
        self._answer(ErrorCode.NOT_COORDINATOR, turn)

    def _answer(self, code: ErrorCode, turn: EventContext) -> None:
        turn.reply(self.to, CommitOffsetsResult({**self.errors, **dict.fromkeys(self.written, code)}))
