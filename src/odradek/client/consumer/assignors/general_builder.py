"""Sticky assignment where members have different subscriptions.

Owned partitions stay; unassigned ones go to the subscriber with the fewest partitions. Then partitions move,
each from its owner to the subscriber with the fewest, as long as that makes the two members more balanced.
Every move does so, which guarantees termination.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping

from odradek.client.consumer.assignors.assignor import PartitionRacks, partitions_of
from odradek.client.consumer.assignors.ownership import Ownership
from odradek.client.consumer.assignors.rack_awareness import RackAwareness
from odradek.model.ids import TopicPartition


class GeneralAssignmentBuilder:
    """Keeps owned partitions, assigns the rest, then rebalances."""

    def __init__(
        self,
        topics: PartitionRacks,
        subscriptions: Mapping[str, frozenset[str]],
        ownership: Ownership,
        racks: RackAwareness,
    ) -> None:
        self._subscriptions = subscriptions
        self._racks = racks
        self._previous_owners = ownership.previous_owners
        self._owned = ownership.owned
        self.assigned: dict[str, set[TopicPartition]] = {member: set() for member in subscriptions}
        self._owner: dict[TopicPartition, str] = {}
        self._movements = _PartitionMovements()
        subscriber_count = dict.fromkeys(topics, 0)
        for subscribed in subscriptions.values():
            for topic in subscribed & topics.keys():
                subscriber_count[topic] += 1
        # Topics with few subscribers first: they have the least choice.
        ordered = sorted((t for t in topics if subscriber_count[t]), key=lambda t: (subscriber_count[t], t))
        self._partitions = [tp for topic in ordered for tp in partitions_of(topic, topics)]
        self._movable = {topic for topic in ordered if subscriber_count[topic] > 1}
        # Members by number of partitions, then by id.
        self._ranking: list[tuple[int, str]] = []

    def build(self) -> dict[str, list[TopicPartition]]:
        has_revoked = self._assign_owned()
        self._ranking = sorted((len(partitions), member) for member, partitions in self.assigned.items())
        unassigned = [tp for tp in self._partitions if tp not in self._owner]
        self._assign(unassigned)
        if not has_revoked:
            # Moving partitions that no member owned costs nothing.
            self._rebalance(unassigned)
        self._rebalance(self._partitions)
        return {member: sorted(partitions) for member, partitions in self.assigned.items()}

    def _assign_owned(self) -> bool:
        """Keep owned partitions; return True if one was revoked: unsubscribed, or in another rack."""
        has_revoked = False
        for member, partitions in self._owned.items():
            for partition in partitions:
                if partition.topic in self._subscriptions[member] and not self._racks.is_mismatch(
                    member, partition
                ):
                    self.assigned[member].add(partition)
                    self._owner[partition] = member
                else:
                    has_revoked = True
        return has_revoked

    def _assign(self, unassigned: Iterable[TopicPartition]) -> None:
        remaining = []
        for partition in unassigned:
            member = self._least_loaded(partition, in_rack=self._racks.is_relevant)
            if member is None:
                remaining.append(partition)
            else:
                self._add(partition, member)
        for partition in remaining:
            member = self._least_loaded(partition)
            assert member is not None, "topics without subscribers are not assigned"
            self._add(partition, member)

    def _least_loaded(self, partition: TopicPartition, in_rack: bool = False) -> str | None:
        """Return the subscriber of the topic with the fewest partitions."""
        topic, subscriptions = partition.topic, self._subscriptions
        for _, member in self._ranking:
            if topic in subscriptions[member] and not (
                in_rack and self._racks.is_mismatch(member, partition)
            ):
                return member
        return None

    def _rebalance(self, partitions: list[TopicPartition]) -> None:
        movable = [tp for tp in partitions if tp.topic in self._movable]
        has_moved = True
        while has_moved:
            has_moved = False
            for partition in movable:
                destination = self._better_owner(partition)
                if destination is not None:
                    self._move(partition, destination)
                    has_moved = True

    def _better_owner(self, partition: TopicPartition) -> str | None:
        """Return the member that should get a partition: its previous owner, or the least loaded one."""
        count = len(self.assigned[self._owner[partition]])
        if count <= self._ranking[0][0] + 1:
            return None
        previous = self._previous_owners.get(partition)
        if (
            previous is not None
            and partition.topic in self._subscriptions.get(previous, ())
            and count > len(self.assigned[previous]) + 1
        ):
            return previous
        least = self._least_loaded(partition)
        return least if least is not None and count > len(self.assigned[least]) + 1 else None

    def _move(self, partition: TopicPartition, destination: str) -> None:
        """Move this partition, or one of the same topic back that had moved the other way."""
        reverse = self._movements.reverse(partition, self._owner[partition], destination)
        balanced_count = len(self.assigned[destination]) + 1
        if reverse is not None and len(self.assigned[self._owner[reverse]]) > balanced_count:
            partition = reverse
        source = self._owner[partition]
        self._movements.record(partition, source, destination)
        self._unrank(source)
        self.assigned[source].remove(partition)
        self._rank(source)
        self._add(partition, destination)

    def _add(self, partition: TopicPartition, member: str) -> None:
        self._unrank(member)
        self.assigned[member].add(partition)
        self._rank(member)
        self._owner[partition] = member

    def _rank(self, member: str) -> None:
        insort(self._ranking, (len(self.assigned[member]), member))

    def _unrank(self, member: str) -> None:
        del self._ranking[bisect_left(self._ranking, (len(self.assigned[member]), member))]


class _PartitionMovements:
    """Movements so far, so that two members do not swap partitions of one topic in vain."""

    def __init__(self) -> None:
        self._of_partition: dict[TopicPartition, tuple[str, str]] = {}
        self._of_pair: dict[tuple[str, str, str], set[TopicPartition]] = {}

    def record(self, partition: TopicPartition, source: str, destination: str) -> None:
        before = self._of_partition.pop(partition, None)
        if before is not None:
            source = before[0]
            self._of_pair[partition.topic, *before].discard(partition)
        if source != destination:
            self._of_partition[partition] = (source, destination)
            self._of_pair.setdefault((partition.topic, source, destination), set()).add(partition)

    def reverse(self, partition: TopicPartition, source: str, destination: str) -> TopicPartition | None:
        """Return a partition of the same topic that moved from ``destination`` to the first source."""
        first_source = self._of_partition.get(partition, (source, destination))[0]
        return min(self._of_pair.get((partition.topic, destination, first_source), ()), default=None)
