"""AlterReplicaLogDirs, versions 0 to 2: move replicas between the log directories of this broker.

A response without an error means that the move has started; DescribeLogDirs shows its progress. For a
partition with several targets the last one applies, as in Kafka. v1 is as v0, v2 is flexible.
"""

from __future__ import annotations

from odradek.broker.requests.dispatcher import RequestContext
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import TopicPartition
from odradek.telemetry import events
from odradek.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

log = events.logger("alter_replica_log_dirs")


async def alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, context: RequestContext
) -> AlterReplicaLogDirsResponse:
    context.require_on_cluster(AclOperation.ALTER)
    codes = {
        topic_partition: await _move(topic_partition, path, context)
        for topic_partition, path in _targets(request).items()
    }
    return _response(codes)


async def _move(topic_partition: TopicPartition, path: str, context: RequestContext) -> ErrorCode:
    try:
        await context.broker.replica_manager.alter_log_dirs.request(topic_partition, path)
    except BrokerError as error:
        log.warning("replica_move_rejected", partition=topic_partition, path=path, reason=str(error))
        return error.code
    return ErrorCode.NONE


def _targets(request: AlterReplicaLogDirsRequest) -> dict[TopicPartition, str]:
    """Return the target log directory of each partition."""
    return {
        TopicPartition(topic.name, number): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for number in topic.partitions
    }


def _response(codes: dict[TopicPartition, ErrorCode]) -> AlterReplicaLogDirsResponse:
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (topic, number), code in codes.items():
        result = topics.setdefault(topic, AlterReplicaLogDirTopicResult(topic, []))
        result.partitions.append(AlterReplicaLogDirPartitionResult(number, code))
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


def error_response(
    request: AlterReplicaLogDirsRequest, code: ErrorCode, message: str | None
) -> AlterReplicaLogDirsResponse:
    return _response(dict.fromkeys(_targets(request), code))
