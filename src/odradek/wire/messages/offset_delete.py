"""OffsetDelete, key 47: forget a group's offsets for partitions it does not read. Version 0, not flexible."""

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
    """The group, and the partitions to forget."""

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
    """An error per partition, and one for the whole."""

    error_code: int = int16()
    throttle_time_ms: int = int32()
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic)
