"""TxnOffsetCommit, versions 0 to 4: offsets of a group that count once the transaction commits.

v2 adds leader epochs, v3 generation and member, so that a member that was replaced is fenced off; v4 clients
know TRANSACTION_ABORTABLE. Clients before v2 do not know that a coordinator may be loading.

The group's coordinator asks that of the transaction first whether the group's partition of the offsets topic
is in the transaction, unless it has it open already.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.broker.handlers.group_requests import exists, require_name
from odradek.broker.requests.dispatcher import Call
from odradek.broker.requests.pending_response import Pending
from odradek.coordinators.groups.commands import CommitOffsets, OffsetAndMetadata
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import OFFSETS_TOPIC, TopicPartition
from odradek.records.batch_producer import BatchProducer
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

LOADING_SINCE: Final = 2
ABORTABLE_SINCE: Final = 4

Codes = Mapping[TopicPartition, ErrorCode]
Found = Mapping[TopicPartition, TxnOffsetCommitRequestPartition]
Result = TxnOffsetCommitResponse | Pending[TxnOffsetCommitResponse]


def txn_offset_commit(request: TxnOffsetCommitRequest, call: Call) -> Result:
    found = {
        partition: part
        for topic in request.topics
        for part in topic.partitions
        if exists(call, partition := TopicPartition(topic.name, part.partition_index))
    }
    if not found:
        return _response(request, call, {})
    try:
        require_name(request.group_id)
        call.broker.groups.shard_of(request.group_id)
        offsets = call.broker.replicas.get_leader_partition(
            OFFSETS_TOPIC, call.broker.groups.partition_of(request.group_id)
        )
    except BrokerError as refused:
        return _response(request, call, dict.fromkeys(found, refused.code))
    pending: Pending[TxnOffsetCommitResponse] = Pending()

    def verified(refusals: Codes) -> None:
        code = refusals.get(offsets.topic_partition)
        if code is not None:
            pending.complete(_response(request, call, dict.fromkeys(found, code)))
        else:
            _commit(request, found, call, pending)

    call.broker.verification.verify(
        request.transactional_id,
        BatchProducer(request.producer_id, request.producer_epoch),
        [offsets],
        verified,
        knows_abortable=call.version >= ABORTABLE_SINCE,
    )
    return pending


def _commit(
    request: TxnOffsetCommitRequest, found: Found, call: Call, pending: Pending[TxnOffsetCommitResponse]
) -> None:
    now_ms = call.broker.clock.wall_ms()
    command = CommitOffsets(
        request.group_id,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
        {partition: _offset(part, now_ms) for partition, part in found.items()},
        request.producer_id,
        request.producer_epoch,
    )
    try:
        call.broker.groups.submit(
            request.group_id,
            command,
            lambda answer: pending.complete(_response(request, call, answer.errors)),
        )
    except BrokerError as refused:
        pending.complete(_response(request, call, dict.fromkeys(found, refused.code)))


def _offset(part: TxnOffsetCommitRequestPartition, now_ms: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(
        part.committed_offset, part.committed_leader_epoch, part.committed_metadata or "", now_ms
    )


def _response(request: TxnOffsetCommitRequest, call: Call, codes: Codes) -> TxnOffsetCommitResponse:
    """Partitions without a code are not there."""
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                topic.name,
                [
                    TxnOffsetCommitResponsePartition(
                        index, _as_known(codes.get(TopicPartition(topic.name, index), missing), call.version)
                    )
                    for index in (part.partition_index for part in topic.partitions)
                ],
            )
            for topic in request.topics
        ]
    )


def _as_known(code: ErrorCode, version: int) -> ErrorCode:
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_SINCE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code


def refuse(request: TxnOffsetCommitRequest, code: ErrorCode, message: str | None) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                topic.name,
                [TxnOffsetCommitResponsePartition(part.partition_index, code) for part in topic.partitions],
            )
            for topic in request.topics
        ]
    )
