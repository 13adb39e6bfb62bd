"""OffsetFetch, key 9: read committed offsets. Versions 0 to 9.

Version 0 reads from ZooKeeper, later versions from the offsets topic. Up to version 7 the request is for
one group with topics at the top level; from version 8 on they are in ``groups``.
"""

from __future__ import annotations

from odradek.wire.schema import array, boolean, int16, int32, int64, message, string, structure


@structure
class OffsetFetchRequestTopic:
    name: str = string()
    partition_indexes: list[int] = array(int32)


@structure
class OffsetFetchRequestTopics:
    name: str = string()
    partition_indexes: list[int] = array(int32)


@structure
class OffsetFetchRequestGroup:
    group_id: str = string()
    member_id: str | None = string(since=9, nullable_since=9, default=None, ignorable=True)
    member_epoch: int = int32(since=9, default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = array(OffsetFetchRequestTopics, nullable_since=8)


@message(versions=range(0, 10), flexible=6)
class OffsetFetchRequest:
    """Partitions of a group, or null for all (v2 and later).

    v6 is flexible; v7 adds require_stable; v8 batches
    groups; v9 adds member id and epoch for the new consumer group protocol.
    """

    group_id: str = string(until=7)
    topics: list[OffsetFetchRequestTopic] | None = array(OffsetFetchRequestTopic, until=7, nullable_since=2)
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, since=8)
    require_stable: bool = boolean(since=7)


@structure
class OffsetFetchResponsePartition:
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(since=5, default=-1, ignorable=True)
    metadata: str | None = string(nullable_since=0)
    error_code: int = int16()


@structure
class OffsetFetchResponseTopic:
    name: str = string()
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition)


@structure
class OffsetFetchResponsePartitions:
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(default=-1)
    metadata: str | None = string(nullable_since=8)
    error_code: int = int16()


@structure
class OffsetFetchResponseTopics:
    name: str = string()
    partitions: list[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions)


@structure
class OffsetFetchResponseGroup:
    group_id: str = string()
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics)
    error_code: int = int16()


@message(versions=range(0, 10), flexible=6)
class OffsetFetchResponse:
    """Offset and metadata per partition; offset -1 without a committed offset.

    v2 adds a top-level error, v3 the throttle time, v5 the leader epoch; v6 is flexible; v7 may
    return UNSTABLE_OFFSET_COMMIT; v8 responds per group; v9 may return STALE_MEMBER_EPOCH and
    UNKNOWN_MEMBER_ID.
    """

    throttle_time_ms: int = int32(since=3, ignorable=True)
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, until=7)
    error_code: int = int16(since=2, until=7, ignorable=True)
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, since=8)
