"""DescribeLogDirs, versions 0 to 4: the data directories, and the size of each replica in them.

A null list of topics asks for all; partitions that are not here are passed over. v1 is as v0, v2 is flexible,
v3 adds an error for the whole, v4 the size of each directory's disk and what is left of it.

A directory that failed is listed with KAFKA_STORAGE_ERROR and nothing in it. The lag of a replica is 0, that
of one that is being moved in is what it still lacks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from odradek.broker.requests.dispatcher import Call
from odradek.log.log import Log
from odradek.log.log_directory import LogDirectory
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


async def describe_log_dirs(request: DescribeLogDirsRequest, call: Call) -> DescribeLogDirsResponse:
    wanted = _wanted(request)
    return DescribeLogDirsResponse(
        results=[await _one(path, wanted, call) for path in call.broker.directories.paths]
    )


def _wanted(request: DescribeLogDirsRequest) -> Collection[TopicPartition] | None:
    """The partitions asked for; None for all."""
    if request.topics is None:
        return None
    return {TopicPartition(topic.topic, number) for topic in request.topics for number in topic.partitions}


async def _one(path: str, wanted: Collection[TopicPartition] | None, call: Call) -> DescribeLogDirsResult:
    directory = call.broker.directories.find_directory(path)
    if directory is None:
        return DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, path)
    try:
        space: Space = await directory.space()
    except StorageError as failure:
        log.warning("disk_space_unknown", path=path, reason=str(failure))
        return DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, path)
    if directory.failure is not None:  # meanwhile
        return DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, path)
    return DescribeLogDirsResult(0, path, _topics(directory, wanted, call), *space)


def _topics(
    directory: LogDirectory, wanted: Collection[TopicPartition] | None, call: Call
) -> list[DescribeLogDirsTopic]:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for found, is_future in _logs(directory):
        topic, number = found.topic_partition
        if wanted is None or found.topic_partition in wanted:
            lag = (
                _lag_of_future(found, call)
                if is_future
                else max(found.high_watermark - found.log_end_offset, 0)
            )
            entry = DescribeLogDirsPartition(number, found.size_bytes, lag, is_future)
            topics.setdefault(topic, DescribeLogDirsTopic(topic, [])).partitions.append(entry)
    return list(topics.values())


def _logs(directory: LogDirectory) -> Iterator[tuple[Log, bool]]:
    for found in directory:
        yield found, False
    for found in directory.future.values():
        yield found, True


def _lag_of_future(future: Log, call: Call) -> int:
    place = call.broker.directories.find(future.topic_partition)
    return UNKNOWN_LAG if place is None else place[1].log_end_offset - future.log_end_offset


def refuse(request: DescribeLogDirsRequest, code: ErrorCode, message: str | None) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(error_code=code)
