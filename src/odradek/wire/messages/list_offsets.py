"""ListOffsets, key 2: offsets by timestamp, or start and end of a log. Versions 0 to 9.

Special timestamps: -1 latest, -2 earliest, -3 max timestamp (v7), -4 earliest local (v8), -5 latest tiered
(v9).
"""

from __future__ import annotations

from odradek.wire.schema import array, int8, int16, int32, int64, message, string, structure


@structure
class ListOffsetsPartition:
    partition_index: int = int32()
    current_leader_epoch: int = int32(since=4, default=-1, ignorable=True)
    timestamp: int = int64()
    max_num_offsets: int = int32(until=0, default=1)


@structure
class ListOffsetsTopic:
    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


@message(versions=range(0, 10), flexible=6)
class ListOffsetsRequest:
    """Partitions, each with a timestamp to look up.

    v0 may request several offsets per partition, later versions one; v2 adds the isolation level,
    v4 the leader epoch for fencing; v6 is flexible; v7, v8 and v9 each add one special
    timestamp.
    """

    replica_id: int = int32()
    isolation_level: int = int8(since=2)
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)


@structure
class ListOffsetsPartitionResponse:
    partition_index: int = int32()
    error_code: int = int16()
    old_style_offsets: list[int] = array(int64, until=0)
    timestamp: int = int64(since=1, default=-1)
    offset: int = int64(since=1, default=-1)
    leader_epoch: int = int32(since=4, default=-1)


@structure
class ListOffsetsTopicResponse:
    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


@message(versions=range(0, 10), flexible=6)
class ListOffsetsResponse:
    """Per partition, the first offset at or after the timestamp.

    v0 returns a list of segment base offsets, v1 and later with one offset and its timestamp; v2
    adds the throttle time, v4 the leader epoch; v5 may return OFFSET_NOT_AVAILABLE; v6 is flexible.
    """

    throttle_time_ms: int = int32(since=2, ignorable=True)
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)
