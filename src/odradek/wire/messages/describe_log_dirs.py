"""DescribeLogDirs, key 35: log directories and the size of each replica in them. Versions 0 to 4."""

from __future__ import annotations

from odradek.wire.schema import array, boolean, int16, int32, int64, message, string, structure


@structure
class DescribableLogDirTopic:
    topic: str = string()
    partitions: list[int] = array(int32)


@message(versions=range(0, 5), flexible=2)
class DescribeLogDirsRequest:
    """Topics to report on, or null for all. v2 is flexible; later versions change the response only."""

    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, nullable_since=0)


@structure
class DescribeLogDirsPartition:
    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()
    is_future_key: bool = boolean()


@structure
class DescribeLogDirsTopic:
    name: str = string()
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


@structure
class DescribeLogDirsResult:
    error_code: int = int16()
    log_dir: str = string()
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic)
    total_bytes: int = int64(since=4, default=-1, ignorable=True)
    usable_bytes: int = int64(since=4, default=-1, ignorable=True)


@message(versions=range(0, 5), flexible=2)
class DescribeLogDirsResponse:
    """v2 is flexible; v3 adds a top-level error, v4 the directory's total and free bytes."""

    throttle_time_ms: int = int32()
    error_code: int = int16(since=3, ignorable=True)
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult)
