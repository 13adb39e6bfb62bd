"""OffsetForLeaderEpoch, key 23: the end offset of a leader epoch. Versions 0 to 4."""

from __future__ import annotations

from odradek.wire.schema import array, int16, int32, int64, message, string, structure


@structure
class OffsetForLeaderPartition:
    partition: int = int32()
    current_leader_epoch: int = int32(since=2, default=-1, ignorable=True)
    leader_epoch: int = int32()


@structure
class OffsetForLeaderTopic:
    topic: str = string()
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition)


@message(versions=range(0, 5), flexible=4)
class OffsetForLeaderEpochRequest:
    """v2 adds the current leader epoch for fencing; v3 the replica id (-1 consumer, -2 debugging
    consumer); v4 is flexible.
    """

    replica_id: int = int32(since=3, default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic)


@structure
class EpochEndOffset:
    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32(since=1, default=-1, ignorable=True)
    end_offset: int = int64(default=-1)


@structure
class OffsetForLeaderTopicResult:
    topic: str = string()
    partitions: list[EpochEndOffset] = array(EpochEndOffset)


@message(versions=range(0, 5), flexible=4)
class OffsetForLeaderEpochResponse:
    """v1 adds the leader epoch, v2 the throttle time; v4 is flexible."""

    throttle_time_ms: int = int32(since=2, ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult)
