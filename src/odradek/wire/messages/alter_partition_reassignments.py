"""AlterPartitionReassignments, key 45: move partitions to other brokers. Version 0, flexible."""

from __future__ import annotations

from odradek.wire.schema import array, int16, int32, message, string, structure


@structure
class ReassignablePartition:
    partition_index: int = int32()
    replicas: list[int] | None = array(int32, nullable_since=0, default=None)


@structure
class ReassignableTopic:
    name: str = string()
    partitions: list[ReassignablePartition] = array(ReassignablePartition)


@message(versions=range(0, 1), flexible=0)
class AlterPartitionReassignmentsRequest:
    """The target replicas of each partition; null cancels an ongoing reassignment."""

    timeout_ms: int = int32(default=60000)
    topics: list[ReassignableTopic] = array(ReassignableTopic)


@structure
class ReassignablePartitionResponse:
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)


@structure
class ReassignableTopicResponse:
    name: str = string()
    partitions: list[ReassignablePartitionResponse] = array(ReassignablePartitionResponse)


@message(versions=range(0, 1), flexible=0)
class AlterPartitionReassignmentsResponse:
    """An error per partition, and a top-level one."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    responses: list[ReassignableTopicResponse] = array(ReassignableTopicResponse)
