"""Proposals of replicas for partitions, and the moves from current replicas to targets. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from odradek.cli.errors import CommandFailed
from odradek.cli.reassign.assignment_json import Replicas
from odradek.cluster.replica_assignment import BrokerRack, assign_replicas
from odradek.model.errors import BrokerError
from odradek.model.ids import TopicPartition

Assignment = Mapping[TopicPartition, Replicas]


class Move(NamedTuple):
    """Replicas of a partition before and after; ``size_bytes`` at its leader, None if unknown."""

    partition: TopicPartition
    before: Replicas
    after: Replicas
    size_bytes: int | None = None

    @property
    def added(self) -> Replicas:
        return tuple(replica for replica in self.after if replica not in self.before)

    @property
    def removed(self) -> Replicas:
        return tuple(replica for replica in self.before if replica not in self.after)

    @property
    def bytes_to_copy(self) -> int | None:
        if not self.added:
            return 0
        return None if self.size_bytes is None else self.size_bytes * len(self.added)


def select_brokers(
    broker_ids: Sequence[int], racks: Mapping[int, str | None], *, is_rack_aware: bool
) -> list[BrokerRack]:
    """Return the brokers of ``--broker-list``; ``racks`` has the live brokers."""
    if repeated := {broker for broker in broker_ids if broker_ids.count(broker) > 1}:
        raise CommandFailed(f"--broker-list must name each broker once, got {min(repeated)} twice")
    check_live(broker_ids, racks, "--broker-list")
    brokers = [BrokerRack(broker, racks[broker] if is_rack_aware else None) for broker in broker_ids]
    without_rack = [broker.id for broker in brokers if broker.rack is None]
    if 0 < len(without_rack) < len(brokers):
        raise CommandFailed(
            f"all brokers or none must have a rack, got none for {_joined(without_rack)}; ignore racks with "
            "--disable-rack-aware"
        )
    return brokers


def check_live(broker_ids: Iterable[int], live: Collection[int], subject: str) -> None:
    """Fail if a broker is not live."""
    if dead := sorted(set(broker_ids) - set(live)):
        live_ids = _joined(sorted(live))
        raise CommandFailed(f"{subject} must be live brokers ({live_ids}), got {_joined(dead)}")


def propose(
    current: Assignment,
    brokers: Sequence[BrokerRack],
    below: Callable[[int], int],
    replication_factor: int | None = None,
) -> dict[TopicPartition, Replicas]:
    """Spread partitions evenly over brokers, each topic by itself, as when topics are created.

    A topic keeps the replication factor of its first partition, unless there is another. ``below(limit)``
    draws a number below a limit: each topic starts at another broker.
    """
    topics: dict[str, list[TopicPartition]] = {}
    for partition in sorted(current):
        topics.setdefault(partition.topic, []).append(partition)
    proposed: dict[TopicPartition, Replicas] = {}
    for topic, partitions in topics.items():
        factor = replication_factor or len(current[partitions[0]])
        start_index, start_shift = below(len(brokers)), below(len(brokers))
        try:
            assignment = assign_replicas(brokers, len(partitions), factor, start_index, start_shift)
        except BrokerError as error:
            raise CommandFailed(f"topic {topic}: {error}") from error
        proposed |= {TopicPartition(topic, number): replicas for number, replicas in assignment.items()}
    return proposed


def plan_moves(
    current: Assignment, targets: Assignment, sizes: Mapping[TopicPartition, int] | None = None
) -> list[Move]:
    """Return the move of each partition of ``targets``, in order."""
    for partition in sorted(targets):
        if partition not in current:
            count = sum(other.topic == partition.topic for other in current)
            raise CommandFailed(f"partition {partition} must exist, got a topic with {count} partitions")
    return [
        Move(partition, current[partition], replicas, None if sizes is None else sizes.get(partition))
        for partition, replicas in sorted(targets.items())
    ]


def _joined(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))
