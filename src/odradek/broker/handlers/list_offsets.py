"""ListOffsets, versions 0 to 9: offsets by time, or by place (earliest, latest, largest timestamp).

v0 gives a list: the log's end, then the bases of older segments. v1 gives one offset with its timestamp, v2
takes the isolation level, v4 leader epochs, v7 the offset of the largest timestamp, v8 the earliest local
offset, v9 the latest tiered one (there is no tiered storage: none is found).

Consumers see nothing past the high watermark (or the last stable offset); replicas, and tools that give
replica id -2, see to the log's end. Replica id -2 may also ask a replica that does not lead.

Times are searched for on threads, one partition after the other: old segments may have to come from the disk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine

from odradek.broker.requests.dispatcher import Call
from odradek.model.errors import BrokerError, ErrorCode
from odradek.replication.partition import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    TimestampAndOffset,
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
SPECIAL_SINCE = {
    LATEST_TIMESTAMP: 1,
    EARLIEST_TIMESTAMP: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
}
"""First versions that may carry each of the timestamps that stand for a place."""

Result = ListOffsetsResponse | Coroutine[None, None, ListOffsetsResponse]


def list_offsets(request: ListOffsetsRequest, call: Call) -> Result:
    asked = Counter(
        (topic.name, part.partition_index) for topic in request.topics for part in topic.partitions
    )
    searches: list[tuple[ListOffsetsTopicResponse, int, ListOffsetsPartition]] = []
    response = ListOffsetsResponse(topics=[])
    for topic in request.topics:
        entries = ListOffsetsTopicResponse(topic.name, [])
        response.topics.append(entries)
        for part in topic.partitions:
            if asked[topic.name, part.partition_index] > 1:
                entries.partitions.append(_refused(part, ErrorCode.INVALID_REQUEST))
            elif not _is_supported(part.timestamp, call.version):
                entries.partitions.append(_refused(part, ErrorCode.UNSUPPORTED_VERSION))
            elif call.version > 0 and requires_timestamp_search(part.timestamp):
                searches.append((entries, len(entries.partitions), part))
                entries.partitions.append(ListOffsetsPartitionResponse(part.partition_index))
            else:
                entries.partitions.append(_named(request, topic.name, part, call))
    return _searched(request, call, response, searches) if searches else response


def _is_supported(timestamp: int, version: int) -> bool:
    """Return whether a request of this version may ask for this timestamp; version 0 takes any."""
    return timestamp >= 0 or version == 0 or version >= SPECIAL_SINCE.get(timestamp, version + 1)


async def _searched(
    request: ListOffsetsRequest,
    call: Call,
    response: ListOffsetsResponse,
    searches: list[tuple[ListOffsetsTopicResponse, int, ListOffsetsPartition]],
) -> ListOffsetsResponse:
    """The response once the entries that need a search are filled in."""
    for entries, place, part in searches:
        try:
            partition = call.broker.replicas.get_readable_partition(
                request.replica_id, entries.name, part.partition_index
            )
            found = await partition.find_time(
                part.timestamp, request.isolation_level, part.current_leader_epoch, request.replica_id
            )
        except BrokerError as refused:
            entries.partitions[place] = _refused(part, refused.code)
        else:
            entries.partitions[place] = _entry(part, found, call.version)
    return response


def _named(
    request: ListOffsetsRequest, topic: str, part: ListOffsetsPartition, call: Call
) -> ListOffsetsPartitionResponse:
    """An entry that needs no search in segments."""
    index = part.partition_index
    try:
        partition = call.broker.replicas.get_readable_partition(request.replica_id, topic, index)
        if call.version == 0:
            now_ms = call.broker.clock.wall_ms()
            offsets = partition.legacy_offsets_for_timestamp(
                part.timestamp, part.max_num_offsets, request.replica_id, now_ms
            )
            return ListOffsetsPartitionResponse(index, old_style_offsets=offsets)
        found = partition.find_special_offset(
            part.timestamp, request.isolation_level, part.current_leader_epoch, request.replica_id
        )
    except BrokerError as refused:
        return _refused(part, refused.code)
    return _entry(part, found, call.version)


def _entry(
    part: ListOffsetsPartition, found: TimestampAndOffset, version: int
) -> ListOffsetsPartitionResponse:
    entry = ListOffsetsPartitionResponse(part.partition_index, timestamp=found.timestamp, offset=found.offset)
    if version >= LEADER_EPOCH_SINCE:
        entry.leader_epoch = found.leader_epoch
    return entry


def _refused(part: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(part.partition_index, code)


def refuse(request: ListOffsetsRequest, code: ErrorCode, message: str | None) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(topic.name, [_refused(part, code) for part in topic.partitions])
            for topic in request.topics
        ]
    )
