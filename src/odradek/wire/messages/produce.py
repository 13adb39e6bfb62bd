"""Produce, key 0: append records. Versions 0 to 11.

Versions 0 to 2 carry message sets of magic 0 and 1; from version 3 on there is one magic-2 batch per
partition. A request with acks=0 gets no response.
"""

from __future__ import annotations

from odradek.ports.files import Buffer
from odradek.wire.schema import array, int16, int32, int64, message, records, string, struct, structure


@structure
class PartitionProduceData:
    index: int = int32()
    records: Buffer | None = records(nullable_since=0)


@structure
class TopicProduceData:
    name: str = string()
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


@message(versions=range(0, 12), flexible=9)
class ProduceRequest:
    """Record batches for partitions of topics.

    v3 adds the transactional id and magic-2 batches; v4 clients handle KAFKA_STORAGE_ERROR; v7 allows
    zstd; v8 clients read record errors; v9 is flexible; v10 and v11 change only what the client
    understands in responses.
    """

    transactional_id: str | None = string(since=3, nullable_since=3, default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


@structure
class BatchIndexAndErrorMessage:
    """An invalid record, by its index in the batch."""

    batch_index: int = int32()
    batch_index_error_message: str | None = string(nullable_since=8, default=None)


@structure
class LeaderIdAndEpoch:
    """The current leader, sent with NOT_LEADER_OR_FOLLOWER errors."""

    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


@structure
class PartitionProduceResponse:
    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64(since=2, default=-1, ignorable=True)
    log_start_offset: int = int64(since=5, default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, since=8, ignorable=True)
    error_message: str | None = string(since=8, nullable_since=8, default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch | None = struct(LeaderIdAndEpoch, since=10, tag=0)


@structure
class TopicProduceResponse:
    name: str = string()
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


@structure
class NodeEndpoint:
    """Endpoint of a leader named in the response."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable_since=10, default=None)


@message(versions=range(0, 12), flexible=9)
class ProduceResponse:
    """An error or the base offset per partition.

    v1 adds the throttle time, v2 the append time, v5 the log start offset, v8 the invalid records and
    a message; v9 is flexible; v10 adds the current leader and its endpoint in tags (KIP-951); v11 may return
    TRANSACTION_ABORTABLE.
    """

    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32(since=1, ignorable=True)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, since=10, tag=0)
