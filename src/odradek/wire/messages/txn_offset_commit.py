"""TxnOffsetCommit, key 28: commit offsets within a transaction. Versions 0 to 4."""

from __future__ import annotations

from odradek.wire.schema import array, int16, int32, int64, message, string, structure


@structure
class TxnOffsetCommitRequestPartition:
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(since=2, default=-1, ignorable=True)
    committed_metadata: str | None = string(nullable_since=0)


@structure
class TxnOffsetCommitRequestTopic:
    name: str = string()
    partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition)


@message(versions=range(0, 5), flexible=3)
class TxnOffsetCommitRequest:
    """v2 adds the leader epoch; v3 is flexible and adds generation, member and instance id for fencing; v4
    clients handle TRANSACTION_ABORTABLE.
    """

    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    generation_id: int = int32(since=3, default=-1)
    member_id: str = string(since=3)
    group_instance_id: str | None = string(since=3, nullable_since=3, default=None)
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic)


@structure
class TxnOffsetCommitResponsePartition:
    partition_index: int = int32()
    error_code: int = int16()


@structure
class TxnOffsetCommitResponseTopic:
    name: str = string()
    partitions: list[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition)


@message(versions=range(0, 5), flexible=3)
class TxnOffsetCommitResponse:
    """An error per partition. v3 is flexible and may fence by group membership."""

    throttle_time_ms: int = int32()
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic)
