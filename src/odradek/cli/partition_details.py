"""Offsets and sizes of partitions, collected with several requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from odradek.client.admin.log_dirs import LogDir
    from odradek.client.admin.offsets import OffsetSpec
    from odradek.client.blocking.admin import Admin
    from odradek.client.values import PartitionInfo
    from odradek.model.ids import TopicPartition


class PartitionDetails(NamedTuple):
    """Log start offset, log end offset and bytes at the leader; None where unknown."""

    start_offset: int | None
    end_offset: int | None
    size_bytes: int | None


def partition_details(
    admin: Admin, partitions: Iterable[PartitionInfo]
) -> dict[TopicPartition, PartitionDetails]:
    """Fetch offsets and sizes of partitions that have a leader."""
    from odradek import OffsetSpec, TopicPartition

    leaders = {TopicPartition(info.topic, info.partition): info.leader for info in partitions}
    with_leader = [partition for partition, leader in leaders.items() if leader >= 0]
    starts = _offsets(admin, with_leader, OffsetSpec.EARLIEST)
    ends = _offsets(admin, with_leader, OffsetSpec.LATEST)
    brokers = sorted({leaders[partition] for partition in with_leader})
    log_dirs = log_dirs_of(admin, brokers, with_leader)
    sizes = {
        (broker, partition): replica.size_bytes
        for broker, directories in log_dirs.items()
        for directory in directories.values()
        for partition, replica in directory.replicas.items()
        if not replica.is_future
    }
    return {
        partition: PartitionDetails(
            starts.get(partition), ends.get(partition), sizes.get((leader, partition))
        )
        for partition, leader in leaders.items()
    }


def _offsets(
    admin: Admin, partitions: Sequence[TopicPartition], spec: OffsetSpec
) -> dict[TopicPartition, int]:
    from odradek import PartialFailure

    if not partitions:
        return {}
    try:
        offsets = admin.list_offsets(dict.fromkeys(partitions, spec))
    except PartialFailure as error:
        offsets = dict(error.results)
    return {partition: offset.offset for partition, offset in offsets.items()}


def log_dirs_of(
    admin: Admin, brokers: Sequence[int], partitions: Sequence[TopicPartition] | None = None
) -> Mapping[int, Mapping[str, LogDir]]:
    """Return the log directories of brokers, except where not authorized."""
    from odradek import ClientError, PartialFailure

    if not brokers:
        return {}
    try:
        return admin.describe_log_dirs(brokers, partitions=partitions)
    except PartialFailure as error:
        return dict(error.results)
    except ClientError:
        return {}
