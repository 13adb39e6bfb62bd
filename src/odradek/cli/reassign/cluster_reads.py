"""Reads of a cluster for reassignments: brokers, replicas, sizes, log directories, lag."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.cli.partition_details import log_dirs_of
from odradek.cli.reassign.assignment_json import Reassignment, Replicas
from odradek.cli.reassign.states import (
    LogDirState,
    PartitionState,
    ReplicaLogDirs,
    log_dir_states,
    partition_states,
)
from odradek.model.ids import TopicPartition

if TYPE_CHECKING:
    from odradek.client.admin.reassignments import PartitionReassignment
    from odradek.client.blocking.admin import Admin
    from odradek.client.values import PartitionInfo

LAG_TIMEOUT_S: Final = 5.0
"""Progress goes on without the lag if a broker does not respond for so long."""

Ongoing = Mapping[TopicPartition, "PartitionReassignment"]


class ReassignmentStates(NamedTuple):
    """States of the partitions and log directories of a file, and all reassignments of the cluster."""

    partitions: list[PartitionState]
    log_dirs: list[LogDirState]
    ongoing: Ongoing


def read_racks(admin: Admin) -> dict[int, str | None]:
    """Return the live brokers with their racks."""
    return {node.id: node.rack for node in admin.describe_cluster().nodes}


def read_partitions(admin: Admin, topics: Collection[str]) -> dict[TopicPartition, PartitionInfo]:
    """Return the partitions of topics, which must exist."""
    return {
        TopicPartition(info.topic, info.partition): info
        for topic in admin.describe_topics(sorted(topics)).values()
        for info in topic.partitions
    }


def origins(
    partitions: Mapping[TopicPartition, PartitionInfo], ongoing: Ongoing
) -> dict[TopicPartition, Replicas]:
    """Return the replicas of partitions; of those being reassigned, the replicas before."""
    return {
        partition: ongoing[partition].origin if partition in ongoing else info.replicas
        for partition, info in partitions.items()
    }


def read_sizes(admin: Admin, partitions: Mapping[TopicPartition, PartitionInfo]) -> dict[TopicPartition, int]:
    """Return bytes by partition, at the leader, as far as brokers tell them."""
    leaders = {partition: info.leader for partition, info in partitions.items() if info.leader >= 0}
    directories = log_dirs_of(admin, sorted(set(leaders.values())), list(leaders))
    return {
        partition: replica.size_bytes
        for broker, paths in directories.items()
        for directory in paths.values()
        for partition, replica in directory.replicas.items()
        if leaders.get(partition) == broker and not replica.is_future
    }


def read_states(admin: Admin, reassignment: Reassignment) -> ReassignmentStates:
    """Return the states of the partitions and log directories of a file."""
    ongoing = admin.list_partition_reassignments()
    current = _existing_replicas(admin, {partition.topic for partition in reassignment.targets})
    return ReassignmentStates(
        partition_states(reassignment.targets, current, ongoing),
        log_dir_states(reassignment.log_dirs, _replica_log_dirs(admin, reassignment.log_dirs)),
        ongoing,
    )


def read_lag(admin: Admin, reassignments: Ongoing) -> int | None:
    """Return the records that added replicas are behind their leaders; None if unknown."""
    from odradek import ClientError

    try:
        return _lag(admin, reassignments)
    except ClientError:
        return None


def _lag(admin: Admin, reassignments: Ongoing) -> int:
    from odradek import PartialFailure, Replica

    partitions = read_partitions(admin, {partition.topic for partition in reassignments})
    leaders = {
        partition: Replica(*partition, partitions[partition].leader)
        for partition in reassignments
        if partition in partitions and partitions[partition].leader >= 0
    }
    added = {
        partition: [Replica(*partition, broker) for broker in reassignments[partition].adding]
        for partition in leaders
    }
    replicas = [*leaders.values(), *(replica for adding in added.values() for replica in adding)]
    try:
        ends = admin.list_log_end_offsets(replicas, timeout_s=LAG_TIMEOUT_S)
    except PartialFailure as failure:
        ends = dict(failure.results)
    # A replica that does not exist yet is behind by the whole log.
    return sum(
        max(0, ends[leader] - ends.get(replica, 0))
        for partition, leader in leaders.items()
        if leader in ends
        for replica in added[partition]
    )


def _existing_replicas(admin: Admin, topics: Iterable[str]) -> dict[TopicPartition, Replicas]:
    """Return the replicas of the partitions of topics, without topics that do not exist."""
    from odradek import ErrorCode, PartialFailure

    try:
        described = admin.describe_topics(sorted(topics))
    except PartialFailure as failure:
        if any(error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for error in failure.errors.values()):
            raise
        described = {topic.name: topic for topic in failure.results.values()}
    return {
        TopicPartition(info.topic, info.partition): info.replicas
        for topic in described.values()
        for info in topic.partitions
    }


def _replica_log_dirs(
    admin: Admin, targets: Mapping[TopicPartition, Mapping[int, str]]
) -> dict[tuple[TopicPartition, int], ReplicaLogDirs]:
    brokers = {broker for directories in targets.values() for broker in directories}
    result: dict[tuple[TopicPartition, int], ReplicaLogDirs] = {}
    for broker, directories in log_dirs_of(admin, sorted(brokers), list(targets)).items():
        for path, directory in directories.items():
            for partition, replica in directory.replicas.items():
                known = result.get((partition, broker), ReplicaLogDirs())
                result[partition, broker] = (
                    known._replace(future=path) if replica.is_future else known._replace(current=path)
                )
    return result
