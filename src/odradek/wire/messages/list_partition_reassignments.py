"""ListPartitionReassignments, key 46: the ongoing reassignments. Version 0, flexible."""

from __future__ import annotations

from odradek.wire.schema import array, int16, int32, message, string, structure


@structure
class ListPartitionReassignmentsTopics:
    name: str = string()
    partition_indexes: list[int] = array(int32)


@message(versions=range(0, 1), flexible=0)
class ListPartitionReassignmentsRequest:
    """Partitions to list, or null for all."""

    timeout_ms: int = int32(default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = array(
        ListPartitionReassignmentsTopics, nullable_since=0, default=None
    )


@structure
class OngoingPartitionReassignment:
    partition_index: int = int32()
    replicas: list[int] = array(int32)
    adding_replicas: list[int] = array(int32)
    removing_replicas: list[int] = array(int32)


@structure
class OngoingTopicReassignment:
    name: str = string()
    partitions: list[OngoingPartitionReassignment] = array(OngoingPartitionReassignment)


@message(versions=range(0, 1), flexible=0)
class ListPartitionReassignmentsResponse:
    """Replicas per partition: all, those being added, those being removed."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    topics: list[OngoingTopicReassignment] = array(OngoingTopicReassignment)
