"""OffsetCommit and TxnOffsetCommit: offsets are appended in one batch and take effect once it is committed.

Concurrent commits of the same partition take effect in log order, so the last one wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from odradek.coordinators.append_errors import offset_commit_error
from odradek.coordinators.effects import ProducerIdAndEpoch
from odradek.coordinators.groups.commands import NO_MEMBER, CommitOffsets, CommitOffsetsResult
from odradek.coordinators.groups.committed_offsets import CommittedOffsets
from odradek.coordinators.groups.event_context import EventContext
from odradek.coordinators.groups.group import Group, GroupState
from odradek.coordinators.groups.membership.rebalance import renew_session
from odradek.coordinators.groups.records import offset_records
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition


def handle_commit_offsets(
    groups: dict[str, Group], command: CommitOffsets, to: object, context: EventContext
) -> None:
    group = groups.get(command.group_id)
    is_transactional = command.producer_id >= 0
    if group is None and command.generation >= 0 and not is_transactional:
        # The group was deleted, or never existed.
        _reject(command, ErrorCode.ILLEGAL_GENERATION, to, context)
        return
    group = group or Group(command.group_id, context.now.wall_ms)
    code = validate_commit(group, command)
    if code is not ErrorCode.NONE:
        _reject(command, code, to, context)
        return
    _renew_session(group, command, context)
    rejected = too_large_metadata(command, context.settings.offset_metadata_bytes_max)
    accepted = command.offsets
    if rejected:
        accepted = {partition: accepted[partition] for partition in accepted if partition not in rejected}
    if not accepted:
        context.reply(to, CommitOffsetsResult(rejected))
        return
    groups[command.group_id] = group
    records, content = offset_records(group.group_id, accepted)
    producer = ProducerIdAndEpoch(command.producer_id, command.producer_epoch) if is_transactional else None
    context.append(records, OffsetsAppend(group.offsets, accepted, rejected, to), producer, content)


def validate_commit(group: Group, command: CommitOffsets) -> ErrorCode:
    """Return NONE for members of the current generation, and for any client while the group has no members.

    A transactional commit may come without a member id: producers older than KIP-447 send none.
    """
    is_transactional = command.producer_id >= 0
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if command.generation < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if command.generation < 0 and command.member_id == NO_MEMBER and command.instance_id is None:
        return ErrorCode.NONE if is_transactional else ErrorCode.UNKNOWN_MEMBER_ID
    code = group.validate_member(command.member_id, command.instance_id)
    if code is not ErrorCode.NONE:
        return code
    if command.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.COMPLETING_REBALANCE and not is_transactional:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _renew_session(group: Group, command: CommitOffsets, context: EventContext) -> None:
    """Treat a commit as a heartbeat, unless it is transactional: its producer is not the member."""
    member = group.members.get(command.member_id)
    if member is not None and command.producer_id < 0:
        renew_session(group, member, context)


def _reject(command: CommitOffsets, code: ErrorCode, to: object, context: EventContext) -> None:
    context.reply(to, CommitOffsetsResult(dict.fromkeys(command.offsets, code)))


def too_large_metadata(command: CommitOffsets, length_max: int) -> dict[TopicPartition, ErrorCode]:
    """Return the errors of offsets whose metadata is too large, which does not prevent the others."""
    return {
        partition: ErrorCode.OFFSET_METADATA_TOO_LARGE
        for partition, offset in command.offsets.items()
        if _java_length(offset.metadata) > length_max
    }


def _java_length(text: str) -> int:
    """Return the number of UTF-16 code units, which Kafka compares although the setting is in bytes."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


class OffsetsAppend:
    """Replies to the commit of the ``appended`` partitions; ``rejected`` has the errors of others."""

    def __init__(
        self,
        offsets: CommittedOffsets,
        appended: Iterable[TopicPartition],
        rejected: Mapping[TopicPartition, ErrorCode],
        to: object,
    ) -> None:
        self.offsets = offsets
        self.appended = appended
        self.rejected = rejected
        self.to = to
        offsets.add_pending(appended)

    def on_committed(self, context: EventContext) -> None:
        self.offsets.remove_pending(self.appended)
        self._reply(ErrorCode.NONE, context)

    def on_failed(self, code: ErrorCode, context: EventContext) -> None:
        self.offsets.remove_pending(self.appended)
        self._reply(offset_commit_error(code), context)

    def on_unloaded(self, context: EventContext) -> None:
        self._reply(ErrorCode.NOT_COORDINATOR, context)

    def _reply(self, code: ErrorCode, context: EventContext) -> None:
        errors = dict.fromkeys(self.appended, code)
        errors.update(self.rejected)
        context.reply(self.to, CommitOffsetsResult(errors))
