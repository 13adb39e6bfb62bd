"""OffsetCommit, versions 0 to 9: commit the offsets of a group.

v0 writes to the store (ZooKeeper in Kafka), later versions to the offsets topic. v1 adds generation, member
and commit timestamps; v2 to v4 the retention time instead; v6 leader epochs, v7 static members. v9 is for
KIP-848 and changes nothing for classic groups.

Unknown partitions get their own error, the others are committed; entries keep the order of the request.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any, Final

from odradek.broker.handlers.group_requests import absence_error, submit_to_group
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
Offsets = Mapping[TopicPartition, OffsetAndMetadata]
Codes = Mapping[TopicPartition, ErrorCode]

_tuple: Final = tuple.__new__  # half the time of a named tuple's own constructor


def offset_commit(request: OffsetCommitRequest, context: RequestContext) -> Result:
    context.require(AclOperation.READ, AclResourceType.GROUP, request.group_id)
    denied = context.denied(AclOperation.READ, AclResourceType.TOPIC, (t.name for t in request.topics))
    offsets = _offsets(request, denied, context)
    if not offsets:
        return _response(request, {}, denied)
    if context.version == 0:
        return _commit_to_store(request, offsets, denied, context)
    command = CommitOffsets(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        offsets,
    )
    try:
        return submit_to_group(
            context, request.group_id, command, lambda result: _response(request, result.errors, denied)
        )
    except BrokerError as error:
        return _response(request, dict.fromkeys(offsets, error.code), denied)


def _offsets(request: OffsetCommitRequest, denied: frozenset[str], context: RequestContext) -> Offsets:
    """Return the offsets of partitions that exist and are allowed."""
    now_ms = context.broker.clock.wall_ms()
    expire_ms = _expire_ms(request.retention_time_ms, now_ms)
    offsets: dict[TopicPartition, OffsetAndMetadata] = {}
    for topic in request.topics:
        name = topic.name
        known = None if name in denied else context.broker.metadata_cache.topic(name)
        if known is None:
            continue
        for part in topic.partitions:
            index = part.partition_index
            if index in known.partitions:
                offsets[_tuple(TopicPartition, (name, index))] = _offset(part, now_ms, expire_ms)
    return offsets


def _expire_ms(retention_time_ms: int, now_ms: int) -> int | None:
    if retention_time_ms == UNSET:
        return None
    return min(now_ms + retention_time_ms, TIMESTAMP_MS_MAX)


def _offset(part: OffsetCommitRequestPartition, now_ms: int, expire_ms: int | None) -> OffsetAndMetadata:
    commit_ms = part.commit_timestamp
    if commit_ms == UNSET:
        commit_ms = now_ms
    metadata = part.committed_metadata or ""
    fields = (part.committed_offset, part.committed_leader_epoch, metadata, commit_ms, expire_ms)
    return _tuple(OffsetAndMetadata, fields)


async def _commit_to_store(
    request: OffsetCommitRequest, offsets: Offsets, denied: frozenset[str], context: RequestContext
) -> OffsetCommitResponse:
    """Write version 0 offsets to the store, which has no field for the metadata; it is only validated."""
    if "/" in request.group_id:
        raise BrokerError(ErrorCode.INVALID_GROUP_ID, "group id must be a valid znode name, got a '/' in it")
    chars_max = context.broker.config.broker[settings.OFFSET_METADATA_MAX_BYTES]
    codes: dict[TopicPartition, ErrorCode] = {}
    for partition, offset in offsets.items():
        if len(offset.metadata) > chars_max:
            codes[partition] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            continue
        try:
            await write_consumer_offset(
                context.broker.membership.store, request.group_id, partition, offset.offset
            )
        except BadPath as error:
            raise BrokerError(ErrorCode.INVALID_GROUP_ID, str(error)) from error
        codes[partition] = ErrorCode.NONE
    return _response(request, codes, denied)


def _response(request: OffsetCommitRequest, codes: Codes, denied: frozenset[str]) -> OffsetCommitResponse:
    """Build the response; partitions without a code are denied, or do not exist."""
    topics = []
    for topic in request.topics:
        name, missing = topic.name, absence_error(topic.name, denied)
        partitions = []
        for part in topic.partitions:
            index = part.partition_index
            code = codes.get(_tuple(TopicPartition, (name, index)), missing)
            partitions.append(OffsetCommitResponsePartition(index, code))
        topics.append(OffsetCommitResponseTopic(name, partitions))
    return OffsetCommitResponse(topics=topics)


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
