"""ListOffsets, versions 0 to 9: offsets by time, or by place (earliest, latest, largest timestamp).

v0 gives a list: the log's end, then the bases of older segments. v1 gives one offset with its timestamp, v2
takes the isolation level, v4 leader epochs, v7 the offset of the largest timestamp, v8 the earliest local
offset, v9 the latest tiered one (there is no tiered storage: none is found).

Consumers see nothing past the high watermark (or the last stable offset); replicas, and tools that give
replica id -2, see to the log's end. Replica id -2 may also ask a replica that does not lead.
"""

from __future__ import annotations

from collections import Counter

from odradek.broker.dispatch import Call
from odradek.model.errors import BrokerError, ErrorCode
from odradek.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LEADER_EPOCH_SINCE = 4


def list_offsets(request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse:
    asked = Counter(
        (topic.name, part.partition_index) for topic in request.topics for part in topic.partitions
    )
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                topic.name,
                [
                    _one(request, topic.name, part, call)
                    if asked[topic.name, part.partition_index] == 1
                    else _refused(part, ErrorCode.INVALID_REQUEST)
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _one(
    request: ListOffsetsRequest, topic: str, part: ListOffsetsPartition, call: Call
) -> ListOffsetsPartitionResponse:
    index = part.partition_index
    try:
        partition = call.broker.replicas.readable_by(request.replica_id, topic, index)
        if call.version == 0:
            now_ms = call.broker.clock.wall_ms()
            offsets = partition.offsets_before(
                part.timestamp, part.max_num_offsets, request.replica_id, now_ms
            )
            return ListOffsetsPartitionResponse(index, old_style_offsets=offsets)
        found = partition.find_offset(
            part.timestamp, request.isolation_level, part.current_leader_epoch, request.replica_id
        )
    except BrokerError as refused:
        return _refused(part, refused.code)
    response = ListOffsetsPartitionResponse(index, timestamp=found.timestamp, offset=found.offset)
    if call.version >= LEADER_EPOCH_SINCE:
        response.leader_epoch = found.leader_epoch
    return response


def _refused(part: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(part.partition_index, code)


def refuse(request: ListOffsetsRequest, code: ErrorCode, message: str | None) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(topic.name, [_refused(part, code) for part in topic.partitions])
            for topic in request.topics
        ]
    )
