"""OffsetForLeaderEpoch, versions 0 to 4: where a leader epoch ends in this log.

Followers ask it to find where to cut, consumers to see whether what they read was cut off. v1 answers with
the epoch found, v2 fences by the current leader epoch, v3 carries the replica id (-1 consumer, -2 debugger).
"""

from __future__ import annotations

from odradek.broker.requests.dispatcher import Call
from odradek.model.errors import BrokerError, ErrorCode
from odradek.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def offset_for_leader_epoch(request: OffsetForLeaderEpochRequest, call: Call) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic.topic, [_one(topic.topic, part, call) for part in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _one(topic: str, part: OffsetForLeaderPartition, call: Call) -> EpochEndOffset:
    try:
        partition = call.broker.replicas.get_leader_partition(topic, part.partition)
        leader_epoch, end_offset = partition.last_offset_for_leader_epoch(
            part.leader_epoch, part.current_leader_epoch
        )
    except BrokerError as refused:
        return EpochEndOffset(refused.code, part.partition)
    return EpochEndOffset(ErrorCode.NONE, part.partition, leader_epoch, end_offset)


def refuse(
    request: OffsetForLeaderEpochRequest, code: ErrorCode, message: str | None
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic.topic, [EpochEndOffset(code, part.partition) for part in topic.partitions]
            )
            for topic in request.topics
        ]
    )
