"""OffsetDelete, key 47: delete committed offsets of unsubscribed partitions. Version 0, not flexible."""

from __future__ import annotations

from odradek.wire.schema import array, int16, int32, message, string, structure


@structure
class OffsetDeleteRequestPartition:
    partition_index: int = int32()


@structure
class OffsetDeleteRequestTopic:
    name: str = string()
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition)


@message(versions=range(0, 1))
class OffsetDeleteRequest:
    """The group and its partitions."""

    group_id: str = string()
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic)


@structure
class OffsetDeleteResponsePartition:
    partition_index: int = int32()
    error_code: int = int16()


@structure
class OffsetDeleteResponseTopic:
    name: str = string()
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition)


@message(versions=range(0, 1))
class OffsetDeleteResponse:
    """An error per partition, and a top-level one."""

    error_code: int = int16()
    throttle_time_ms: int = int32()
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic)
