"""Fetch, key 1: read records, for consumers and followers. Versions 0 to 17.

Responses carry magic 0 in versions 0 and 1, magic 1 in versions 2 and 3, magic 2 from version 4 on.
"""

from __future__ import annotations

from odradek.ports.files import Part
from odradek.wire.schema import (
    array,
    int8,
    int16,
    int32,
    int64,
    message,
    records,
    string,
    struct,
    structure,
    uuid,
)


@structure
class ReplicaState:
    """The fetching follower and its broker epoch."""

    replica_id: int = int32(default=-1)
    replica_epoch: int = int64(default=-1)


@structure
class FetchPartition:
    partition: int = int32()
    current_leader_epoch: int = int32(since=9, default=-1, ignorable=True)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32(since=12, default=-1)
    log_start_offset: int = int64(since=5, default=-1, ignorable=True)
    partition_max_bytes: int = int32()
    replica_directory_id: bytes = uuid(since=17, ignorable=True, tag=0)


@structure
class FetchTopic:
    topic: str = string(until=12, ignorable=True)
    topic_id: bytes = uuid(since=13, ignorable=True)
    partitions: list[FetchPartition] = array(FetchPartition)


@structure
class ForgottenTopic:
    topic: str = string(until=12, ignorable=True)
    topic_id: bytes = uuid(since=13, ignorable=True)
    partitions: list[int] = array(int32)


@message(versions=range(0, 18), flexible=12)
class FetchRequest:
    """The partitions to read, their fetch offsets, and the size and wait limits.

    v3 adds a limit for the whole response and makes the order of partitions matter; v4 the isolation
    level; v5 the follower's log start offset; v7 fetch sessions (KIP-227); v9 the leader epoch for
    fencing (KIP-320); v10 allows zstd; v11 the consumer's rack; v12 is flexible and adds the last fetched
    epoch; v13 names topics by id (KIP-516); v15 moves the replica id into a tagged structure with its
    broker epoch (KIP-903); v17 adds the follower's directory id. Versions 1, 2, 6, 8, 14 and 16 have
    the fields of the one before.
    """

    cluster_id: str | None = string(since=12, nullable_since=12, default=None, ignorable=True, tag=0)
    replica_id: int = int32(until=14, default=-1)
    replica_state: ReplicaState | None = struct(ReplicaState, since=15, tag=1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(since=3, default=0x7FFFFFFF, ignorable=True)
    isolation_level: int = int8(since=4, ignorable=True)
    session_id: int = int32(since=7, ignorable=True)
    session_epoch: int = int32(since=7, default=-1, ignorable=True)
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, since=7)
    rack_id: str = string(since=11, ignorable=True)


@structure
class EpochEndOffset:
    """The last epoch that follower and leader share, and its end offset."""

    epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


@structure
class LeaderIdAndEpoch:
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


@structure
class SnapshotId:
    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


@structure
class AbortedTransaction:
    """Producer id and first offset of an aborted transaction."""

    producer_id: int = int64()
    first_offset: int = int64()


@structure
class PartitionData:
    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64(since=4, default=-1, ignorable=True)
    log_start_offset: int = int64(since=5, default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset | None = struct(EpochEndOffset, since=12, tag=0)
    current_leader: LeaderIdAndEpoch | None = struct(LeaderIdAndEpoch, since=12, tag=1)
    snapshot_id: SnapshotId | None = struct(SnapshotId, since=12, tag=2)
    aborted_transactions: list[AbortedTransaction] | None = array(
        AbortedTransaction, since=4, nullable_since=4, ignorable=True
    )
    preferred_read_replica: int = int32(since=11, default=-1)
    records: Part | None = records(nullable_since=0)


@structure
class FetchableTopicResponse:
    topic: str = string(until=12, ignorable=True)
    topic_id: bytes = uuid(since=13, ignorable=True)
    partitions: list[PartitionData] = array(PartitionData)


@structure
class NodeEndpoint:
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable_since=16, default=None)


@message(versions=range(0, 18), flexible=12)
class FetchResponse:
    """Records per partition, with high watermark and related offsets.

    v1 adds the throttle time; v4 the last stable offset and aborted transactions; v5 the log start
    offset; v7 a session id and a top-level error; v11 the preferred read replica; v12 is flexible
    and reports diverging epochs, the current leader and snapshots in tags; v13 names topics by id; v16
    adds the leaders' endpoints.
    """

    throttle_time_ms: int = int32(since=1, ignorable=True)
    error_code: int = int16(since=7, ignorable=True)
    session_id: int = int32(since=7)
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, since=16, tag=0)
