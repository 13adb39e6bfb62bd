"""Resolution of offset limits to offsets: the ListOffsets specs to request, and their results. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from odradek.client.admin.offsets import OffsetSpec
from odradek.client.values import OffsetAndMetadata
from odradek.model.client_errors import NoOffset
from odradek.model.ids import TopicPartition
from odradek.spark.options.offsets import (
    GroupOffset,
    LogBound,
    OffsetLimit,
    Offsets,
    PartitionLimit,
    SpecificOffset,
    SpecificTimestamp,
    format_partitions,
)

PartitionLimits = Mapping[TopicPartition, PartitionLimit]
_SPEC_OF = {LogBound.EARLIEST: OffsetSpec.EARLIEST, LogBound.LATEST: OffsetSpec.LATEST}


def partition_limits(
    offset_limit: OffsetLimit,
    partitions: Iterable[TopicPartition],
    committed: Mapping[TopicPartition, OffsetAndMetadata],
) -> dict[TopicPartition, PartitionLimit]:
    """Return the limit of each partition, with the group's committed offsets filled in."""
    limits: dict[TopicPartition, PartitionLimit] = {}
    for partition in partitions:
        limit = offset_limit.of(partition)
        if isinstance(limit, GroupOffset):
            limit = SpecificOffset(committed[partition].offset) if partition in committed else limit.fallback
        limits[partition] = limit
    return limits


def offset_specs(limits: PartitionLimits) -> dict[TopicPartition, OffsetSpec | int]:
    """Return the ListOffsets specs of partitions without a specific offset."""
    specs: dict[TopicPartition, OffsetSpec | int] = {}
    for partition, limit in limits.items():
        if isinstance(limit, LogBound):
            specs[partition] = _SPEC_OF[limit]
        elif isinstance(limit, SpecificTimestamp):
            specs[partition] = limit.timestamp_ms
    return specs


def timestamp_partitions(limits: PartitionLimits) -> list[TopicPartition]:
    """Return the partitions with a timestamp limit.

    Their end offsets are requested first: they apply where no record has a timestamp that late.
    """
    return [partition for partition, limit in limits.items() if isinstance(limit, SpecificTimestamp)]


def resolve_offsets(
    limits: PartitionLimits,
    listed_offsets: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    *,
    late_is_error: bool,
) -> Offsets:
    """Return the offset of each limit; raise NoOffset for a timestamp after the last record, if an error."""
    late = [partition for partition in timestamp_partitions(limits) if listed_offsets[partition] < 0]
    if late and late_is_error:
        raise NoOffset(
            f"{format_partitions(late)} has no record at or after the starting timestamp: use an earlier "
            "one, or set startingOffsetsByTimestampStrategy=latest to start at the log end"
        )
    offsets: Offsets = {}
    for partition, limit in limits.items():
        if isinstance(limit, SpecificOffset):
            offsets[partition] = limit.offset
        else:
            offsets[partition] = ends[partition] if partition in late else listed_offsets[partition]
    return offsets
