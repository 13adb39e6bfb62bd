"""Validation and replica assignment of CreateTopics and CreatePartitions: pure, with Kafka's errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain

from odradek.cluster.replica_assignment import BrokerRack, assign_added_replicas, assign_replicas
from odradek.cluster.topic_names import check_topic_name, colliding_topic
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import INTERNAL_TOPICS

PARTITIONS_MAX = 100_000
"""Limit per topic, beyond what a whole cluster should hold: a request for two billion partitions must not
allocate the memory to plan them."""

DEFAULT = -1
"""Stands for the broker's default number of partitions or replicas."""

Assignment = dict[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class NewTopic:
    """Requested topic: counts, or the replicas of each partition."""

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    settings: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionIncrease:
    topic: str
    count: int
    assignments: Sequence[tuple[int, ...]] | None = None


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Inputs of a plan besides the request: topics, live brokers, defaults, and two random numbers."""

    topics: Mapping[str, object]
    brokers: Sequence[BrokerRack]
    partitions_default: int
    replication_factor_default: int
    start_index: int
    start_shift: int
    pending: Iterable[str] = ()
    """Names of topics that are being created and not in ``topics`` yet. Few plans need them: read once."""


def plan_topic(request: NewTopic, cluster: ClusterView) -> Assignment:
    """Return the replica assignment of a new topic; its configs are validated elsewhere."""
    check_topic_name(request.name)
    if request.name in cluster.topics:
        raise BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic '{request.name}' already exists")
    other = colliding_topic(request.name, chain(cluster.topics, cluster.pending))
    if other is not None:
        raise BrokerError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"topic '{request.name}' collides with existing topic '{other}': "
            "names that differ only in '.' and '_' share their metrics",
        )
    empty = [name for name, value in request.settings.items() if value is None]
    if empty:
        raise BrokerError(
            ErrorCode.INVALID_CONFIG, f"topic configs must not be null, got null for {', '.join(empty)}"
        )
    if request.assignments:
        if request.partitions != DEFAULT or request.replication_factor != DEFAULT:
            raise BrokerError(
                ErrorCode.INVALID_REQUEST,
                "numPartitions and replicationFactor must be -1 with replica assignments",
            )
        return _manual_assignment(request.assignments, {broker.id for broker in cluster.brokers})
    partitions = cluster.partitions_default if request.partitions == DEFAULT else request.partitions
    _check_count(partitions)
    factor = request.replication_factor
    if factor == DEFAULT:
        factor = cluster.replication_factor_default
    return assign_replicas(cluster.brokers, partitions, factor, cluster.start_index, cluster.start_shift)


def plan_partition_increase(
    request: PartitionIncrease, existing: Assignment, cluster: ClusterView
) -> Assignment:
    """Return the replica assignment of the added partitions."""
    if request.topic in INTERNAL_TOPICS:
        # Keys are mapped to partitions by the partition count.
        raise BrokerError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"partition count of {request.topic} cannot be changed: groups and transactional ids are mapped "
            "to partitions by their count",
        )
    current, requested = len(existing), request.count
    if requested < current:
        raise BrokerError(
            ErrorCode.INVALID_PARTITIONS,
            f"partition count must be above the current {current}, got {requested}",
        )
    _check_count(requested)
    if requested == current:
        raise BrokerError(ErrorCode.INVALID_PARTITIONS, f"topic already has {current} partitions")
    if request.assignments is None:
        return assign_added_replicas(cluster.brokers, requested - current, current, existing[0])
    if len(request.assignments) != requested - current:
        raise BrokerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"assignments must be as many as the added partitions ({requested - current}), "
            f"got {len(request.assignments)}",
        )
    unknown = {broker_id for replicas in request.assignments for broker_id in replicas} - {
        broker.id for broker in cluster.brokers
    }
    if unknown:
        raise BrokerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"replicas must be on live brokers, got {', '.join(map(str, sorted(unknown)))}",
        )
    added = {current + index: replicas for index, replicas in enumerate(request.assignments)}
    _check_replicas({**existing, **added})
    return added


def _check_count(partitions: int) -> None:
    if partitions > PARTITIONS_MAX:
        raise BrokerError(
            ErrorCode.INVALID_PARTITIONS, f"partitions must be <= {PARTITIONS_MAX}, got {partitions}"
        )


def _manual_assignment(assignments: Mapping[int, tuple[int, ...]], live: Set[int]) -> Assignment:
    if sorted(assignments) != list(range(len(assignments))):
        raise BrokerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    _check_replicas(assignments)
    for partition, replicas in assignments.items():
        if live.isdisjoint(replicas):
            # The topic could be neither described nor deleted, and its name would be taken.
            raise BrokerError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"partition {partition} must have a live replica, got {list(replicas)}",
            )
    return dict(assignments)


def _check_replicas(assignments: Mapping[int, tuple[int, ...]]) -> None:
    for partition, replicas in assignments.items():
        if not replicas:
            raise BrokerError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partition {partition} must have a replica, got none"
            )
        if len(set(replicas)) != len(replicas):
            raise BrokerError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"replicas of partition {partition} must be distinct, got {list(replicas)}",
            )
    if len({len(replicas) for replicas in assignments.values()}) > 1:
        raise BrokerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "all partitions should have the same number of replicas"
        )
