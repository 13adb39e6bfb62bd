"""TxnOffsetCommit, versions 0 to 4: commit offsets of a group as part of a transaction.

v2 adds leader epochs, v3 generation and member, which fence zombie members; v4 clients know
TRANSACTION_ABORTABLE. Clients before v2 do not know COORDINATOR_LOAD_IN_PROGRESS.

The offsets partition of the group is verified to be in the transaction, unless it has the transaction open.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.broker.handlers.group_requests import absence_error, partition_exists, require_group_id
from odradek.broker.requests.dispatcher import RequestContext
from odradek.broker.requests.pending_response import PendingResponse
from odradek.coordinators.append_errors import verification_error
from odradek.coordinators.groups.commands import CommitOffsets, OffsetAndMetadata
from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
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
Partitions = Mapping[TopicPartition, TxnOffsetCommitRequestPartition]
Result = TxnOffsetCommitResponse | PendingResponse[TxnOffsetCommitResponse]


def txn_offset_commit(request: TxnOffsetCommitRequest, context: RequestContext) -> Result:
    context.require(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id)
    context.require(AclOperation.READ, AclResourceType.GROUP, request.group_id)
    denied = context.denied(AclOperation.READ, AclResourceType.TOPIC, (t.name for t in request.topics))
    partitions = {
        partition: part
        for topic in request.topics
        if topic.name not in denied
        for part in topic.partitions
        if partition_exists(context, partition := TopicPartition(topic.name, part.partition_index))
    }
    if not partitions:
        return _response(request, context, {}, denied)
    try:
        require_group_id(request.group_id)
        context.broker.group_coordinator.shard_of(request.group_id)
        offsets_partition = context.broker.replica_manager.get_leader_partition(
            OFFSETS_TOPIC, context.broker.group_coordinator.partition_of(request.group_id)
        )
    except BrokerError as error:
        return _response(request, context, dict.fromkeys(partitions, error.code), denied)
    pending: PendingResponse[TxnOffsetCommitResponse] = PendingResponse()

    def on_verified(errors: Codes) -> None:
        code = errors.get(offsets_partition.topic_partition)
        if code is not None:
            code = verification_error(code)
            pending.complete(_response(request, context, dict.fromkeys(partitions, code), denied))
        else:
            _commit(request, partitions, denied, context, pending)

    context.broker.transaction_verification.verify(
        request.transactional_id,
        BatchProducer(request.producer_id, request.producer_epoch),
        [offsets_partition],
        on_verified,
        source=context.session,
        supports_abortable=context.version >= ABORTABLE_SINCE,
    )
    return pending


def _commit(
    request: TxnOffsetCommitRequest,
    partitions: Partitions,
    denied: frozenset[str],
    context: RequestContext,
    pending: PendingResponse[TxnOffsetCommitResponse],
) -> None:
    now_ms = context.broker.clock.wall_ms()
    command = CommitOffsets(
        request.group_id,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
        {partition: _offset(part, now_ms) for partition, part in partitions.items()},
        request.producer_id,
        request.producer_epoch,
    )
    try:
        context.broker.group_coordinator.submit(
            request.group_id,
            command,
            lambda result: pending.complete(_response(request, context, result.errors, denied)),
        )
    except BrokerError as error:
        pending.complete(_response(request, context, dict.fromkeys(partitions, error.code), denied))


def _offset(part: TxnOffsetCommitRequestPartition, now_ms: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(
        part.committed_offset, part.committed_leader_epoch, part.committed_metadata or "", now_ms
    )


def _response(
    request: TxnOffsetCommitRequest, context: RequestContext, codes: Codes, denied: frozenset[str]
) -> TxnOffsetCommitResponse:
    """Build the response; partitions without a code are denied, or do not exist."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                topic.name,
                [
                    TxnOffsetCommitResponsePartition(
                        index,
                        _error_for_version(
                            codes.get(TopicPartition(topic.name, index), absence_error(topic.name, denied)),
                            context.version,
                        ),
                    )
                    for index in (part.partition_index for part in topic.partitions)
                ],
            )
            for topic in request.topics
        ]
    )


def _error_for_version(code: ErrorCode, version: int) -> ErrorCode:
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_SINCE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code


def error_response(
    request: TxnOffsetCommitRequest, code: ErrorCode, message: str | None
) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                topic.name,
                [TxnOffsetCommitResponsePartition(part.partition_index, code) for part in topic.partitions],
            )
            for topic in request.topics
        ]
    )
