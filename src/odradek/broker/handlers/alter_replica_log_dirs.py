"""AlterReplicaLogDirs, versions 0 to 2: move replicas between the data directories of this broker.

An answer without an error says that the move is begun; DescribeLogDirs shows how far it is. A partition that
is asked for twice goes where it is asked to last, as in Kafka. v1 is as v0, v2 is flexible.
"""

from __future__ import annotations

from odradek.broker.requests.dispatcher import Call
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
    request: AlterReplicaLogDirsRequest, call: Call
) -> AlterReplicaLogDirsResponse:
    codes = {
        topic_partition: await _one(topic_partition, path, call)
        for topic_partition, path in _wanted(request).items()
    }
    return _response(codes)


async def _one(topic_partition: TopicPartition, path: str, call: Call) -> ErrorCode:
    try:
        await call.broker.replicas.alter_log_dirs.request(topic_partition, path)
    except BrokerError as refused:
        log.warning("replica_move_rejected", partition=topic_partition, path=path, reason=str(refused))
        return refused.code
    return ErrorCode.NONE


def _wanted(request: AlterReplicaLogDirsRequest) -> dict[TopicPartition, str]:
    """Where each partition is to go."""
    return {
        TopicPartition(topic.name, number): wanted.path
        for wanted in request.dirs
        for topic in wanted.topics
        for number in topic.partitions
    }


def _response(codes: dict[TopicPartition, ErrorCode]) -> AlterReplicaLogDirsResponse:
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (topic, number), code in codes.items():
        result = topics.setdefault(topic, AlterReplicaLogDirTopicResult(topic, []))
        result.partitions.append(AlterReplicaLogDirPartitionResult(number, code))
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


def refuse(
    request: AlterReplicaLogDirsRequest, code: ErrorCode, message: str | None
) -> AlterReplicaLogDirsResponse:
    return _response(dict.fromkeys(_wanted(request), code))
