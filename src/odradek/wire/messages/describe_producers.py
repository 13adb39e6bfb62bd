"""DescribeProducers, key 61: the producer state kept by partition leaders. Version 0, flexible."""

from __future__ import annotations

from odradek.wire.schema import array, int16, int32, int64, message, string, structure


@structure
class TopicRequest:
    name: str = string()
    partition_indexes: list[int] = array(int32)


@message(versions=range(0, 1), flexible=0)
class DescribeProducersRequest:
    """The partitions to describe."""

    topics: list[TopicRequest] = array(TopicRequest)


@structure
class ProducerState:
    producer_id: int = int64()
    producer_epoch: int = int32()
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(default=-1)


@structure
class PartitionResponse:
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)
    active_producers: list[ProducerState] = array(ProducerState)


@structure
class TopicResponse:
    name: str = string()
    partitions: list[PartitionResponse] = array(PartitionResponse)


@message(versions=range(0, 1), flexible=0)
class DescribeProducersResponse:
    """The active producers per partition, with sequence and ongoing transaction."""

    throttle_time_ms: int = int32()
    topics: list[TopicResponse] = array(TopicResponse)
