"""AlterReplicaLogDirs, key 34: move replicas between log directories of a broker. Versions 0 to 2."""

from __future__ import annotations

from odradek.wire.schema import array, int16, int32, message, string, structure


@structure
class AlterReplicaLogDirTopic:
    name: str = string()
    partitions: list[int] = array(int32)


@structure
class AlterReplicaLogDir:
    path: str = string()
    topics: list[AlterReplicaLogDirTopic] = array(AlterReplicaLogDirTopic)


@message(versions=range(0, 3), flexible=2)
class AlterReplicaLogDirsRequest:
    """v2 is flexible."""

    dirs: list[AlterReplicaLogDir] = array(AlterReplicaLogDir)


@structure
class AlterReplicaLogDirPartitionResult:
    partition_index: int = int32()
    error_code: int = int16()


@structure
class AlterReplicaLogDirTopicResult:
    topic_name: str = string()
    partitions: list[AlterReplicaLogDirPartitionResult] = array(AlterReplicaLogDirPartitionResult)


@message(versions=range(0, 3), flexible=2)
class AlterReplicaLogDirsResponse:
    """v2 is flexible."""

    throttle_time_ms: int = int32()
    results: list[AlterReplicaLogDirTopicResult] = array(AlterReplicaLogDirTopicResult)
