"""OffsetForLeaderEpoch, versions 0 to 4: end offset of a leader epoch.

Followers use it to find their truncation offset, consumers to detect log truncation. v1 adds the epoch to the
response, v2 fencing by the current leader epoch, v3 the replica id (-1 consumer, -2 debugger).
"""

from __future__ import annotations

from odradek.broker.requests.authorization import NO_NAMES
from odradek.broker.requests.dispatcher import RequestContext
from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import BrokerError, ErrorCode
from odradek.replication.reads.offset_lookup import last_offset_for_leader_epoch
from odradek.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, context: RequestContext
) -> OffsetForLeaderEpochResponse:
    denied = NO_NAMES
    if not context.is_allowed_on_cluster(AclOperation.CLUSTER_ACTION, log_if_denied=False):
        names = (topic.topic for topic in request.topics)
        denied = context.denied(AclOperation.DESCRIBE, AclResourceType.TOPIC, names)
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic.topic,
                [
                    EpochEndOffset(ErrorCode.TOPIC_AUTHORIZATION_FAILED, part.partition)
                    if topic.topic in denied
                    else _end_offset(topic.topic, part, context)
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _end_offset(topic: str, part: OffsetForLeaderPartition, context: RequestContext) -> EpochEndOffset:
    try:
        partition = context.broker.replica_manager.get_leader_partition(topic, part.partition)
        leader_epoch, end_offset = last_offset_for_leader_epoch(
            partition, part.leader_epoch, part.current_leader_epoch
        )
    except BrokerError as error:
        return EpochEndOffset(error.code, part.partition)
    return EpochEndOffset(ErrorCode.NONE, part.partition, leader_epoch, end_offset)


def error_response(
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
