"""ListOffsets, versions 0 to 9: offsets by timestamp or special timestamp (earliest, latest, max timestamp).

v0 returns a list: the log end offset, then the base offsets of older segments. v1 returns one offset with its
timestamp, v2 adds the isolation level, v4 leader epochs, v7 the offset of the max timestamp, v8 the earliest
local offset, v9 the latest tiered offset (there is no tiered storage, so always -1).

Consumers see offsets up to the high watermark (or the last stable offset); replicas, and tools with replica
id -2, up to the log end offset. With replica id -2 a follower responds, too.

Timestamps are searched on threads, one partition after the other: old segments may have to be read from disk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine

from odradek.broker.requests.dispatcher import RequestContext
from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import BrokerError, ErrorCode
from odradek.replication.reads.offset_lookup import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    TimestampAndOffset,
    find_offset_by_timestamp,
    find_special_offset,
    legacy_offsets_for_timestamp,
    requires_timestamp_search,
)
from odradek.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LEADER_EPOCH_SINCE = 4
OFFSET_NOT_AVAILABLE_SINCE = 5
SPECIAL_SINCE = {
    LATEST_TIMESTAMP: 1,
    EARLIEST_TIMESTAMP: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
}
"""First version of each special timestamp."""

Result = ListOffsetsResponse | Coroutine[None, None, ListOffsetsResponse]


def list_offsets(request: ListOffsetsRequest, context: RequestContext) -> Result:
    counts = Counter(
        (topic.name, part.partition_index) for topic in request.topics for part in topic.partitions
    )
    denied = context.denied(AclOperation.DESCRIBE, AclResourceType.TOPIC, (t.name for t in request.topics))
    searches: list[tuple[ListOffsetsTopicResponse, int, ListOffsetsPartition]] = []
    response = ListOffsetsResponse(topics=[])
    for topic in request.topics:
        entries = ListOffsetsTopicResponse(topic.name, [])
        response.topics.append(entries)
        for part in topic.partitions:
            if topic.name in denied:
                entries.partitions.append(_error_entry(part, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            elif counts[topic.name, part.partition_index] > 1:
                entries.partitions.append(_error_entry(part, ErrorCode.INVALID_REQUEST))
            elif not _is_supported(part.timestamp, context.version):
                entries.partitions.append(_error_entry(part, ErrorCode.UNSUPPORTED_VERSION))
            elif context.version > 0 and requires_timestamp_search(part.timestamp):
                searches.append((entries, len(entries.partitions), part))
                entries.partitions.append(ListOffsetsPartitionResponse(part.partition_index))
            else:
                entries.partitions.append(_special_entry(request, topic.name, part, context))
    return _search(request, context, response, searches) if searches else response


def _is_supported(timestamp: int, version: int) -> bool:
    """Return whether this version supports the timestamp; version 0 takes any."""
    return timestamp >= 0 or version == 0 or version >= SPECIAL_SINCE.get(timestamp, version + 1)


async def _search(
    request: ListOffsetsRequest,
    context: RequestContext,
    response: ListOffsetsResponse,
    searches: list[tuple[ListOffsetsTopicResponse, int, ListOffsetsPartition]],
) -> ListOffsetsResponse:
    """Fill in the entries that need a search; return the response."""
    for entries, index, part in searches:
        try:
            partition = context.broker.replica_manager.get_readable_partition(
                request.replica_id, entries.name, part.partition_index
            )
            result = await find_offset_by_timestamp(
                partition,
                part.timestamp,
                request.isolation_level,
                part.current_leader_epoch,
                request.replica_id,
            )
        except BrokerError as error:
            entries.partitions[index] = _error_entry(part, _code_for_version(error.code, context.version))
        else:
            entries.partitions[index] = _entry(part, result, context.version)
    return response


def _special_entry(
    request: ListOffsetsRequest, topic: str, part: ListOffsetsPartition, context: RequestContext
) -> ListOffsetsPartitionResponse:
    """Return an entry that needs no search in segments."""
    index = part.partition_index
    try:
        partition = context.broker.replica_manager.get_readable_partition(request.replica_id, topic, index)
        if context.version == 0:
            now_ms = context.broker.clock.wall_ms()
            offsets = legacy_offsets_for_timestamp(
                partition, part.timestamp, part.max_num_offsets, request.replica_id, now_ms
            )
            return ListOffsetsPartitionResponse(index, old_style_offsets=offsets)
        result = find_special_offset(
            partition, part.timestamp, request.isolation_level, part.current_leader_epoch, request.replica_id
        )
    except BrokerError as error:
        return _error_entry(part, _code_for_version(error.code, context.version))
    return _entry(part, result, context.version)


def _code_for_version(code: ErrorCode, version: int) -> ErrorCode:
    """Return an error code that clients of this version know and retry."""
    if code is ErrorCode.OFFSET_NOT_AVAILABLE and version < OFFSET_NOT_AVAILABLE_SINCE:
        return ErrorCode.LEADER_NOT_AVAILABLE
    return code


def _entry(
    part: ListOffsetsPartition, result: TimestampAndOffset, version: int
) -> ListOffsetsPartitionResponse:
    entry = ListOffsetsPartitionResponse(
        part.partition_index, timestamp=result.timestamp, offset=result.offset
    )
    if version >= LEADER_EPOCH_SINCE:
        entry.leader_epoch = result.leader_epoch
    return entry


def _error_entry(part: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(part.partition_index, code)


def error_response(request: ListOffsetsRequest, code: ErrorCode, message: str | None) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(topic.name, [_error_entry(part, code) for part in topic.partitions])
            for topic in request.topics
        ]
    )
