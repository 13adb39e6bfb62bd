"""DeleteRecords, key 21: advance the log start offset of partitions. Versions 0 to 2."""

from __future__ import annotations

from odradek.wire.schema import array, int16, int32, int64, message, string, structure


@structure
class DeleteRecordsPartition:
    partition_index: int = int32()
    offset: int = int64()


@structure
class DeleteRecordsTopic:
    name: str = string()
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition)


@message(versions=range(0, 3), flexible=2)
class DeleteRecordsRequest:
    """The new log start offset per partition; -1 means the high watermark. v2 is flexible."""

    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic)
    timeout_ms: int = int32()


@structure
class DeleteRecordsPartitionResult:
    partition_index: int = int32()
    low_watermark: int = int64()
    error_code: int = int16()


@structure
class DeleteRecordsTopicResult:
    name: str = string()
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult)


@message(versions=range(0, 3), flexible=2)
class DeleteRecordsResponse:
    """The resulting low watermark per partition. v2 is flexible."""

    throttle_time_ms: int = int32()
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult)
