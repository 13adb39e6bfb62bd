"""Facts about partitions that take several requests: offsets and sizes."""

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
    """First offset, log end offset and bytes at the leader; None where the cluster does not tell."""

    start_offset: int | None
    end_offset: int | None
    size_bytes: int | None


def partition_details(
    admin: Admin, partitions: Iterable[PartitionInfo]
) -> dict[TopicPartition, PartitionDetails]:
    """Ask for offsets and sizes of partitions, as far as they have leaders."""
    from odradek import OffsetSpec, TopicPartition

    leaders = {TopicPartition(one.topic, one.partition): one.leader for one in partitions}
    led = [one for one, leader in leaders.items() if leader >= 0]
    starts = _offsets(admin, led, OffsetSpec.EARLIEST)
    ends = _offsets(admin, led, OffsetSpec.LATEST)
    directories = log_dirs_of(admin, sorted({leaders[one] for one in led}), led)
    sizes = {
        (broker, partition): replica.size_bytes
        for broker, of_broker in directories.items()
        for directory in of_broker.values()
        for partition, replica in directory.replicas.items()
        if not replica.is_future
    }
    return {
        one: PartitionDetails(starts.get(one), ends.get(one), sizes.get((leader, one)))
        for one, leader in leaders.items()
    }


def _offsets(
    admin: Admin, partitions: Sequence[TopicPartition], spec: OffsetSpec
) -> dict[TopicPartition, int]:
    from odradek import PartialFailure

    if not partitions:
        return {}
    try:
        found = admin.list_offsets(dict.fromkeys(partitions, spec))
    except PartialFailure as failed:
        found = dict(failed.results)
    return {one: offset.offset for one, offset in found.items()}


def log_dirs_of(
    admin: Admin, brokers: Sequence[int], partitions: Sequence[TopicPartition] | None = None
) -> Mapping[int, Mapping[str, LogDir]]:
    """Return the data directories of brokers, without those that do not tell: it takes authorization."""
    from odradek import ClientError, PartialFailure

    if not brokers:
        return {}
    try:
        return admin.describe_log_dirs(brokers, partitions=partitions)
    except PartialFailure as failed:
        return dict(failed.results)
    except ClientError:
        return {}
