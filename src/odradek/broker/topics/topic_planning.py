"""What a wish for a topic, or for more partitions, amounts to: pure, with Kafka's refusals."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain

from odradek.cluster.replica_assignment import BrokerRack, assign_added_replicas, assign_replicas
from odradek.cluster.topic_names import check_topic_name, colliding_topic
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import INTERNAL_TOPICS

PARTITIONS_MAX = 100_000
"""Of one topic. More than whole clusters are advised to hold; a wish for two thousand million must not cost
the memory to plan it."""

DEFAULT = -1
"""Stands for the broker's own number of partitions or replicas."""

Assignment = dict[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic somebody wants: counts, or the replicas of each partition."""

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
class Surroundings:
    """What a plan depends on beside the wish: topics, live brokers, defaults, and two drawn numbers."""

    topics: Mapping[str, object]
    brokers: Sequence[BrokerRack]
    partitions_default: int
    replication_factor_default: int
    start_index: int
    start_shift: int
    pending: Collection[str] = ()
    """Names of topics that are being created and are not among ``topics`` yet."""


def plan_topic(wish: NewTopic, around: Surroundings) -> Assignment:
    """Replicas for each partition of a new topic; settings are judged elsewhere."""
    check_topic_name(wish.name)
    if wish.name in around.topics:
        raise BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{wish.name}' already exists.")
    other = colliding_topic(wish.name, chain(around.topics, around.pending))
    if other is not None:
        raise BrokerError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{wish.name}' collides with existing topic '{other}': "
            "names that differ only in '.' and '_' share their metrics",
        )
    empty = [name for name, value in wish.settings.items() if value is None]
    if empty:
        raise BrokerError(
            ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(empty)}"
        )
    if wish.assignments:
        if wish.partitions != DEFAULT or wish.replication_factor != DEFAULT:
            raise BrokerError(
                ErrorCode.INVALID_REQUEST,
                "give numPartitions and replicationFactor, or replica assignments, not both",
            )
        return _given(wish.assignments, {broker.id for broker in around.brokers})
    partitions = around.partitions_default if wish.partitions == DEFAULT else wish.partitions
    _check_count(partitions)
    factor = wish.replication_factor
    if factor == DEFAULT:
        factor = around.replication_factor_default
    return assign_replicas(around.brokers, partitions, factor, around.start_index, around.start_shift)


def plan_more_partitions(wish: PartitionIncrease, existing: Assignment, around: Surroundings) -> Assignment:
    """Replicas for the partitions to be added."""
    if wish.topic in INTERNAL_TOPICS:
        # Who belongs to which partition is computed from their number.
        raise BrokerError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"The number of partitions of {wish.topic} cannot be changed: groups and transactional ids would "
            "be looked for in other partitions than those that hold them.",
        )
    present, wanted = len(existing), wish.count
    if wanted < present:
        raise BrokerError(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic currently has {present} partitions, which is higher than the requested {wanted}.",
        )
    _check_count(wanted)
    if wanted == present:
        raise BrokerError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partitions.")
    if wish.assignments is None:
        return assign_added_replicas(around.brokers, wanted - present, present, existing[0])
    if len(wish.assignments) != wanted - present:
        raise BrokerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Increasing the number of partitions by {wanted - present} "
            f"but {len(wish.assignments)} assignments provided.",
        )
    unknown = {b for replicas in wish.assignments for b in replicas} - {b.id for b in around.brokers}
    if unknown:
        raise BrokerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unknown broker(s) in replica assignment: {', '.join(map(str, sorted(unknown)))}.",
        )
    added = {present + index: replicas for index, replicas in enumerate(wish.assignments)}
    _check_replicas({**existing, **added})
    return added


def judge_reassignment(
    wanted: Sequence[int] | None, current: Sequence[int] | None, live: Collection[int]
) -> None:
    """Refuse a reassignment that is not to the replicas a partition has; None cancels one under way.

    ``current`` is None if there is no such partition.
    """
    if wanted is None:
        raise BrokerError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    problem = _replica_list_problem(wanted, current or (), live)
    if problem is not None:
        raise BrokerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    if current is None:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
    if list(wanted) != list(current):
        raise BrokerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"replicas cannot be moved between brokers yet: must be {list(current)}, got {list(wanted)}",
        )


def _replica_list_problem(
    wanted: Sequence[int], current: Collection[int], live: Collection[int]
) -> str | None:
    if not wanted:
        return "Empty replica list specified in partition reassignment."
    if len(set(wanted)) != len(wanted):
        return f"Duplicate replica ids in partition reassignment replica list: {list(wanted)}"
    if any(broker_id < 0 for broker_id in wanted):
        return f"Invalid broker id in replica list: {list(wanted)}"
    absent = [broker_id for broker_id in wanted if broker_id not in current and broker_id not in live]
    if absent:
        return (
            f"Replica assignment has brokers that are not alive. Replica list: {absent}, "
            f"live broker list: {sorted(live)}"
        )
    return None


def _check_count(partitions: int) -> None:
    if partitions > PARTITIONS_MAX:
        raise BrokerError(
            ErrorCode.INVALID_PARTITIONS, f"a topic has at most {PARTITIONS_MAX} partitions, not {partitions}"
        )


def _given(assignments: Mapping[int, tuple[int, ...]], live: Set[int]) -> Assignment:
    if sorted(assignments) != list(range(len(assignments))):
        raise BrokerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    _check_replicas(assignments)
    for partition, replicas in assignments.items():
        if live.isdisjoint(replicas):
            # It could never come online: a topic nobody sees, nobody can delete, and whose name is taken.
            raise BrokerError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"none of the brokers {list(replicas)} given for partition {partition} is there",
            )
    return dict(assignments)


def _check_replicas(assignments: Mapping[int, tuple[int, ...]]) -> None:
    for partition, replicas in assignments.items():
        if not replicas:
            raise BrokerError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partition {partition} is given no replica"
            )
        if len(set(replicas)) != len(replicas):
            raise BrokerError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"partition {partition} is given a broker twice: {list(replicas)}",
            )
    if len({len(replicas) for replicas in assignments.values()}) > 1:
        raise BrokerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "all partitions should have the same number of replicas"
        )
