"""CreatePartitions, key 37: increase the partition count of topics. Versions 0 to 3."""

from __future__ import annotations

from odradek.wire.schema import array, boolean, int16, int32, message, string, structure


@structure
class CreatePartitionsAssignment:
    broker_ids: list[int] = array(int32)


@structure
class CreatePartitionsTopic:
    name: str = string()
    count: int = int32()
    assignments: list[CreatePartitionsAssignment] | None = array(CreatePartitionsAssignment, nullable_since=0)


@message(versions=range(0, 4), flexible=2)
class CreatePartitionsRequest:
    """The new total per topic, with an optional assignment of the new ones. v2 is flexible; v3
    clients handle THROTTLING_QUOTA_EXCEEDED.
    """

    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


@structure
class CreatePartitionsTopicResult:
    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)


@message(versions=range(0, 4), flexible=2)
class CreatePartitionsResponse:
    """v2 is flexible; v3 may return THROTTLING_QUOTA_EXCEEDED."""

    throttle_time_ms: int = int32()
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)
