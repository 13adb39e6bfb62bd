"""OffsetCommit, versions 0 to 9: a group stores how far it has read.

v0 stores in the cluster's store, later ones in the offsets topic. v1 adds generation and member, and the time
of each commit; v2 to v4 say instead how long to keep it; v6 adds leader epochs, v7 static members. v9 is for
the protocol of KIP-848 as well, and changes nothing for others.

Partitions that are not there are refused one by one, the others go on; entries are answered in their order.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any, Final

from odradek.broker.handlers.group_requests import ask_group, exists
from odradek.broker.requests.dispatcher import Call
from odradek.broker.requests.pending_response import Pending
from odradek.config import broker as settings
from odradek.coordinators.groups.commands import CommitOffsets, OffsetAndMetadata
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

NOT_GIVEN: Final = -1
TIMESTAMP_MS_MAX: Final = 2**63 - 1

Result = OffsetCommitResponse | Pending[OffsetCommitResponse] | Coroutine[Any, Any, OffsetCommitResponse]
Found = Mapping[TopicPartition, OffsetCommitRequestPartition]
Codes = Mapping[TopicPartition, ErrorCode]


def offset_commit(request: OffsetCommitRequest, call: Call) -> Result:
    found = {
        partition: part
        for topic in request.topics
        for part in topic.partitions
        if exists(call, partition := TopicPartition(topic.name, part.partition_index))
    }
    if not found:
        return _response(request, {})
    if call.version == 0:
        return _into_store(request, found, call)
    command = _command(request, found, call.broker.clock.wall_ms())
    try:
        return ask_group(call, request.group_id, command, lambda answer: _response(request, answer.errors))
    except BrokerError as refused:
        return _response(request, dict.fromkeys(found, refused.code))


def _command(request: OffsetCommitRequest, found: Found, now_ms: int) -> CommitOffsets:
    expire_ms = _expire_ms(request.retention_time_ms, now_ms)
    return CommitOffsets(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        {partition: _offset(part, now_ms, expire_ms) for partition, part in found.items()},
    )


def _expire_ms(retention_time_ms: int, now_ms: int) -> int | None:
    if retention_time_ms == NOT_GIVEN:
        return None
    return min(now_ms + retention_time_ms, TIMESTAMP_MS_MAX)


def _offset(part: OffsetCommitRequestPartition, now_ms: int, expire_ms: int | None) -> OffsetAndMetadata:
    return OffsetAndMetadata(
        part.committed_offset,
        part.committed_leader_epoch,
        part.committed_metadata or "",
        now_ms if part.commit_timestamp == NOT_GIVEN else part.commit_timestamp,
        expire_ms,
    )


async def _into_store(request: OffsetCommitRequest, found: Found, call: Call) -> OffsetCommitResponse:
    """The metadata of a commit has no place there and is only checked."""
    if "/" in request.group_id:
        raise BrokerError(ErrorCode.INVALID_GROUP_ID, "the group's id is no name of a node")
    chars_max = call.broker.config.broker[settings.OFFSET_METADATA_MAX_BYTES]
    codes: dict[TopicPartition, ErrorCode] = {}
    for partition, part in found.items():
        if len(part.committed_metadata or "") > chars_max:
            codes[partition] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            continue
        try:
            await write_consumer_offset(call.broker.store, request.group_id, partition, part.committed_offset)
        except BadPath as bad:
            raise BrokerError(ErrorCode.INVALID_GROUP_ID, str(bad)) from bad
        codes[partition] = ErrorCode.NONE
    return _response(request, codes)


def _response(request: OffsetCommitRequest, codes: Codes) -> OffsetCommitResponse:
    """Partitions without a code are not there."""
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.name,
                [
                    OffsetCommitResponsePartition(
                        index, codes.get(TopicPartition(topic.name, index), missing)
                    )
                    for index in (part.partition_index for part in topic.partitions)
                ],
            )
            for topic in request.topics
        ]
    )


def refuse(request: OffsetCommitRequest, code: ErrorCode, message: str | None) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.name,
                [OffsetCommitResponsePartition(part.partition_index, code) for part in topic.partitions],
            )
            for topic in request.topics
        ]
    )
