"""DescribeLogDirs, versions 0 to 4: log directories, and the size of each replica in them.

A null list of topics means all; partitions without a local replica are skipped. v1 is as v0, v2 is flexible,
v3 adds an error code for the whole response, v4 total and usable bytes of each directory's disk.

An offline directory is listed with KAFKA_STORAGE_ERROR and no topics. The lag of a future replica is its
distance to the current one; that of others is 0, or -1 if this broker has no role in the partition yet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from odradek.broker.requests.dispatcher import RequestContext
from odradek.log.directory.log_directory import LogDirectory
from odradek.log.log import Log
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import ErrorCode, StorageError
from odradek.model.ids import TopicPartition
from odradek.ports.files import Space
from odradek.telemetry import events
from odradek.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

UNKNOWN_LAG = -1

log = events.logger("describe_log_dirs")


async def describe_log_dirs(
    request: DescribeLogDirsRequest, context: RequestContext
) -> DescribeLogDirsResponse:
    context.require_on_cluster(AclOperation.DESCRIBE)
    requested = _requested_partitions(request)
    return DescribeLogDirsResponse(
        results=[
            await _describe_directory(path, requested, context) for path in context.broker.log_manager.paths
        ]
    )


def _requested_partitions(request: DescribeLogDirsRequest) -> Collection[TopicPartition] | None:
    """Return the requested partitions; None for all."""
    if request.topics is None:
        return None
    return {TopicPartition(topic.topic, number) for topic in request.topics for number in topic.partitions}


async def _describe_directory(
    path: str, requested: Collection[TopicPartition] | None, context: RequestContext
) -> DescribeLogDirsResult:
    directory = context.broker.log_manager.find_directory(path)
    if directory is None:
        return DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, path)
    try:
        space: Space = await directory.space()
    except StorageError as error:
        log.warning("disk_space_unknown", path=path, reason=str(error))
        return DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, path)
    if directory.failure is not None:  # failed meanwhile
        return DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, path)
    return DescribeLogDirsResult(0, path, _topics(directory, requested, context), *space)


def _topics(
    directory: LogDirectory, requested: Collection[TopicPartition] | None, context: RequestContext
) -> list[DescribeLogDirsTopic]:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for replica_log, is_future in _logs(directory):
        topic, number = replica_log.topic_partition
        if requested is None or replica_log.topic_partition in requested:
            lag = _offset_lag(replica_log, is_future, context)
            entry = DescribeLogDirsPartition(number, replica_log.size_bytes, lag, is_future)
            topics.setdefault(topic, DescribeLogDirsTopic(topic, [])).partitions.append(entry)
    return list(topics.values())


def _logs(directory: LogDirectory) -> Iterator[tuple[Log, bool]]:
    for replica_log in directory:
        yield replica_log, False
    for replica_log in directory.future.values():
        yield replica_log, True


def _offset_lag(replica_log: Log, is_future: bool, context: RequestContext) -> int:
    """Return the distance of a future replica to the current one, or of a replica to its high watermark.

    As in Kafka, it is unknown while the controller has not named the partition to this broker.
    """
    partition = context.broker.replica_manager.get_partition(*replica_log.topic_partition)
    if partition is None:
        return UNKNOWN_LAG
    if is_future:
        return partition.log_end_offset - replica_log.log_end_offset
    return max(partition.high_watermark - replica_log.log_end_offset, 0)


def error_response(
    request: DescribeLogDirsRequest, code: ErrorCode, message: str | None
) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(error_code=code)
