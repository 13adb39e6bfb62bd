"""The controller's requests to a broker, in one form for all versions, and their results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from odradek.cluster.topic_names import is_legal_topic_name
from odradek.log.segments.segment_format import DIRECTORY_NAME_LENGTH_MAX, directory_name
from odradek.model.errors import ErrorCode
from odradek.model.ids import EPOCH_DURING_DELETE, ZERO_TOPIC_ID, TopicId, TopicPartition
from odradek.wire.messages.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from odradek.wire.messages.stop_replica import StopReplicaRequest

NO_EPOCH: Final = -1
"""Leader epoch in StopReplica that is not checked: versions without the field have it."""


class RequestedRole(NamedTuple):
    """One partition of a LeaderAndIsr request; its topic id is zero if the controller knows none."""

    topic_partition: TopicPartition
    topic_id: TopicId
    state: LeaderAndIsrPartitionState


class RequestedStop(NamedTuple):
    """One partition of a StopReplica request."""

    topic_partition: TopicPartition
    leader_epoch: int
    delete: bool


class ControlResult(NamedTuple):
    """Result of a LeaderAndIsr or StopReplica request: an error of all of it, or one per partition."""

    error: ErrorCode
    partition_errors: dict[TopicPartition, ErrorCode]


class MetadataSource(NamedTuple):
    """Controller of an UpdateMetadata request, and the registration of this broker that it knows."""

    controller_epoch: int
    broker_epoch: int


class MetadataChange(NamedTuple):
    """Result of an UpdateMetadata request, or the removal of topics whose deletion was missed."""

    error: ErrorCode
    topics: Sequence[str] = ()
    """Topics that were added, changed or deleted."""
    deleted_topics: Sequence[str] = ()
    deleted_partitions: Sequence[TopicPartition] = ()
    source: MetadataSource | None = None
    """None if no request has changed the metadata."""


def requested_roles(request: LeaderAndIsrRequest) -> Iterator[RequestedRole]:
    """Yield the partitions of a LeaderAndIsr request: ungrouped up to version 1, then by topic."""
    for state in request.ungrouped_partition_states:
        yield RequestedRole(TopicPartition(state.topic_name, state.partition_index), ZERO_TOPIC_ID, state)
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield RequestedRole(
                TopicPartition(topic.topic_name, state.partition_index), topic.topic_id, state
            )


def requested_stops(request: StopReplicaRequest) -> Iterator[RequestedStop]:
    """Yield the partitions of a StopReplica request; the delete flag is per partition from version 3 on."""
    for single in request.ungrouped_partitions:
        topic_partition = TopicPartition(single.topic_name, single.partition_index)
        yield RequestedStop(topic_partition, NO_EPOCH, request.delete_partitions)
    for topic in request.topics:
        for number in topic.partition_indexes:
            yield RequestedStop(TopicPartition(topic.name, number), NO_EPOCH, request.delete_partitions)
    for topic_state in request.topic_states:
        for state in topic_state.partition_states:
            topic_partition = TopicPartition(topic_state.topic_name, state.partition_index)
            yield RequestedStop(topic_partition, state.leader_epoch, state.delete_partition)


def is_stop_fenced(requested_epoch: int, leader_epoch: int) -> bool:
    """Return whether a StopReplica request is older than the partition's current leader epoch."""
    return requested_epoch not in (NO_EPOCH, EPOCH_DURING_DELETE) and requested_epoch < leader_epoch


def check_partition_name(topic_partition: TopicPartition) -> ErrorCode:
    """Return an error for a partition whose log cannot have a directory.

    Kafka trusts its controller here, and takes the log directory offline if that fails.
    """
    topic, number = topic_partition
    if not is_legal_topic_name(topic):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if number < 0:
        return ErrorCode.INVALID_PARTITIONS
    if len(directory_name(topic_partition)) > DIRECTORY_NAME_LENGTH_MAX:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.NONE


class RoleDecision(NamedTuple):
    """Decision about a partition state in LeaderAndIsr: it is applied, or it gets an error."""

    applies: bool
    error: ErrorCode = ErrorCode.NONE
    assigns_topic_id: bool = False
    """The log gets its topic id although nothing else changes."""
    updates_fetcher: bool = False
    """The follower fetches by another topic id, or by name, from now on."""


_APPLIED: Final = RoleDecision(True)


def decide_role(
    requested: RequestedRole, broker_id: int, current_epoch: int, current_topic_id: TopicId
) -> RoleDecision:
    """Decide about a partition state in a LeaderAndIsr request of a controller that is not outdated.

    An equal leader epoch says nothing new, except to a cluster that begins or ceases to use topic ids.
    """
    state, topic_id = requested.state, requested.topic_id
    if ZERO_TOPIC_ID not in (topic_id, current_topic_id) and topic_id != current_topic_id:
        return RoleDecision(False, ErrorCode.INCONSISTENT_TOPIC_ID)
    if state.leader_epoch > current_epoch:
        if broker_id in state.replicas:
            return _APPLIED
        return RoleDecision(False, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if state.leader_epoch == current_epoch and topic_id != current_topic_id:
        is_follower = state.leader != broker_id
        if current_topic_id == ZERO_TOPIC_ID:
            return RoleDecision(False, assigns_topic_id=True, updates_fetcher=is_follower)
        if is_follower:
            return RoleDecision(False, updates_fetcher=True)
    return RoleDecision(False, ErrorCode.STALE_CONTROLLER_EPOCH)
