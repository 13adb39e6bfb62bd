"""OffsetCommit, key 8: commit offsets of a group. Versions 0 to 9.

Version 0 stores offsets in ZooKeeper, later versions in the offsets topic.
"""

from __future__ import annotations

from odradek.wire.schema import array, int16, int32, int64, message, string, structure


@structure
class OffsetCommitRequestPartition:
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(since=6, default=-1, ignorable=True)
    commit_timestamp: int = int64(since=1, until=1, default=-1)
    committed_metadata: str | None = string(nullable_since=0)


@structure
class OffsetCommitRequestTopic:
    name: str = string()
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


@message(versions=range(0, 10), flexible=8)
class OffsetCommitRequest:
    """Offsets to commit for a group.

    v1 adds generation, member and a commit timestamp per partition; v2 drops the timestamp for a
    retention time; v5 drops that too; v6 adds the leader epoch, v7 the static instance id; v8 is
    flexible; v9 supports the new consumer group protocol.
    """

    group_id: str = string()
    generation_id_or_member_epoch: int = int32(since=1, default=-1, ignorable=True)
    member_id: str = string(since=1, ignorable=True)
    group_instance_id: str | None = string(since=7, nullable_since=7, default=None)
    retention_time_ms: int = int64(since=2, until=4, default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic)


@structure
class OffsetCommitResponsePartition:
    partition_index: int = int32()
    error_code: int = int16()


@structure
class OffsetCommitResponseTopic:
    name: str = string()
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition)


@message(versions=range(0, 10), flexible=8)
class OffsetCommitResponse:
    """An error per partition. v3 adds the throttle time; v8 is flexible; v9 may return STALE_MEMBER_EPOCH and
    GROUP_ID_NOT_FOUND.
    """

    throttle_time_ms: int = int32(since=3, ignorable=True)
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)
