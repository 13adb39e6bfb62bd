"""OffsetCommit, versions 0 to 9: commit the offsets of a group.

v0 writes to the store (ZooKeeper in Kafka), later versions to the offsets topic. v1 adds generation, member
and commit timestamps; v2 to v4 the retention time instead; v6 leader epochs, v7 static members. v9 is for
KIP-848 and changes nothing for classic groups.

Unknown partitions get their own error, the others are committed; entries keep the order of the request.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any, Final

from odradek.broker.handlers.group_requests import absence_error, partition_exists, submit_to_group
from odradek.broker.requests.dispatcher import RequestContext
from odradek.broker.requests.pending_response import PendingResponse
from odradek.config import broker as settings
from odradek.coordinators.groups.commands import CommitOffsets, OffsetAndMetadata
from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import TopicPartition
from odradek.store.consumer_offsets import write_consumer_offset
from odradek.store.port import BadPath
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

UNSET: Final = -1
TIMESTAMP_MS_MAX: Final = 2**63 - 1

Result = (
    OffsetCommitResponse | PendingResponse[OffsetCommitResponse] | Coroutine[Any, Any, OffsetCommitResponse]
)
Partitions = Mapping[TopicPartition, OffsetCommitRequestPartition]
Codes = Mapping[TopicPartition, ErrorCode]


def offset_commit(request: OffsetCommitRequest, context: RequestContext) -> Result:
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
        return _response(request, {}, denied)
    if context.version == 0:
        return _commit_to_store(request, partitions, denied, context)
    command = _command(request, partitions, context.broker.clock.wall_ms())
    try:
        return submit_to_group(
            context, request.group_id, command, lambda result: _response(request, result.errors, denied)
        )
    except BrokerError as error:
        return _response(request, dict.fromkeys(partitions, error.code), denied)


def _command(request: OffsetCommitRequest, partitions: Partitions, now_ms: int) -> CommitOffsets:
    expire_ms = _expire_ms(request.retention_time_ms, now_ms)
    return CommitOffsets(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        {partition: _offset(part, now_ms, expire_ms) for partition, part in partitions.items()},
    )


def _expire_ms(retention_time_ms: int, now_ms: int) -> int | None:
    if retention_time_ms == UNSET:
        return None
    return min(now_ms + retention_time_ms, TIMESTAMP_MS_MAX)


def _offset(part: OffsetCommitRequestPartition, now_ms: int, expire_ms: int | None) -> OffsetAndMetadata:
    return OffsetAndMetadata(
        part.committed_offset,
        part.committed_leader_epoch,
        part.committed_metadata or "",
        now_ms if part.commit_timestamp == UNSET else part.commit_timestamp,
        expire_ms,
    )


async def _commit_to_store(
    request: OffsetCommitRequest, partitions: Partitions, denied: frozenset[str], context: RequestContext
) -> OffsetCommitResponse:
    """Write version 0 offsets to the store, which has no field for the metadata; it is only validated."""
    if "/" in request.group_id:
        raise BrokerError(ErrorCode.INVALID_GROUP_ID, "group id must be a valid znode name, got a '/' in it")
    chars_max = context.broker.config.broker[settings.OFFSET_METADATA_MAX_BYTES]
    codes: dict[TopicPartition, ErrorCode] = {}
    for partition, part in partitions.items():
        if len(part.committed_metadata or "") > chars_max:
            codes[partition] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            continue
        try:
            await write_consumer_offset(
                context.broker.membership.store, request.group_id, partition, part.committed_offset
            )
        except BadPath as error:
            raise BrokerError(ErrorCode.INVALID_GROUP_ID, str(error)) from error
        codes[partition] = ErrorCode.NONE
    return _response(request, codes, denied)


def _response(request: OffsetCommitRequest, codes: Codes, denied: frozenset[str]) -> OffsetCommitResponse:
    """Build the response; partitions without a code are denied, or do not exist."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.name,
                [
                    OffsetCommitResponsePartition(
                        index, codes.get(TopicPartition(topic.name, index), absence_error(topic.name, denied))
                    )
                    for index in (part.partition_index for part in topic.partitions)
                ],
            )
            for topic in request.topics
        ]
    )


def error_response(
    request: OffsetCommitRequest, code: ErrorCode, message: str | None
) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.name,
                [OffsetCommitResponsePartition(part.partition_index, code) for part in topic.partitions],
            )
            for topic in request.topics
        ]
    )
