"""Sticky assignment where all members have the same subscription.

The quota of a member is the number of partitions divided by the number of members, rounded down or up; the
remainder is the number of members with the larger quota. This takes one pass over members and one over
partitions, where ``general_builder`` must weigh each move.
"""

from __future__ import annotations

from collections import deque

from odradek.client.consumer.assignors.assignor import PartitionRacks, partitions_of
from odradek.client.consumer.assignors.ownership import Ownership
from odradek.client.consumer.assignors.rack_awareness import RackAwareness
from odradek.model.ids import TopicPartition


class ConstrainedAssignmentBuilder:
    """Keeps owned partitions up to the quota, then distributes the rest."""

    def __init__(self, topics: PartitionRacks, ownership: Ownership, racks: RackAwareness) -> None:
        self._ownership = ownership
        self._racks = racks
        self._partitions = [tp for topic in sorted(topics) for tp in partitions_of(topic, topics)]
        self.assigned: dict[str, list[TopicPartition]] = {member: [] for member in ownership.owned}
        self._min_quota, self._larger_left = divmod(len(self._partitions), len(self.assigned))
        # Members below the smaller quota, and those that have it and may get the larger one.
        self._below: list[str] = []
        self._exact: list[str] = []

    def build(self) -> dict[str, list[TopicPartition]]:
        self._assign_owned()
        kept = {tp for partitions in self.assigned.values() for tp in partitions}
        unassigned = [tp for tp in self._partitions if tp not in kept]
        self._below.sort()
        self._exact.sort()
        if self._racks.is_relevant:
            unassigned = self._assign_rack_local(self._racks.sort_by_local_members(unassigned))
        self._assign_round_robin(unassigned)
        return self.assigned

    def _assign_owned(self) -> None:
        """Let each member keep its partitions, up to its quota."""
        for member in sorted(self.assigned):
            owned = sorted(
                (tp for tp in self._ownership.owned[member] if not self._racks.is_mismatch(member, tp)),
                key=lambda tp: (tp.partition, tp.topic),
            )
            if len(owned) < self._min_quota:
                self.assigned[member] += owned
                self._below.append(member)
            elif len(owned) > self._min_quota and self._larger_left:
                self.assigned[member] += owned[: self._min_quota + 1]
                self._larger_left -= 1
            else:
                self.assigned[member] += owned[: self._min_quota]
                self._exact.append(member)

    def _assign_rack_local(self, unassigned: list[TopicPartition]) -> list[TopicPartition]:
        """Assign partitions to members in their racks; return those without such a member."""
        remaining: list[TopicPartition] = []
        start = 0
        for partition in unassigned:
            index = self._next_match(partition, self._below, start)
            if index is not None:
                member = self._below[index]
                self.assigned[member].append(partition)
                if len(self.assigned[member]) == self._min_quota:
                    self._exact.append(self._below.pop(index))
                else:
                    index += 1
                start = index % len(self._below) if self._below else 0
                continue
            index = self._next_match(partition, self._exact, 0) if self._larger_left else None
            if index is None:
                remaining.append(partition)
            else:
                self.assigned[self._exact.pop(index)].append(partition)
                self._larger_left -= 1
        return remaining

    def _next_match(self, partition: TopicPartition, members: list[str], start: int) -> int | None:
        for step in range(len(members)):
            index = (start + step) % len(members)
            if self._racks.is_match(members[index], partition):
                return index
        return None

    def _assign_round_robin(self, unassigned: list[TopicPartition]) -> None:
        """Fill up members below their quota in turn, then give one more to each of the others."""
        below, exact = deque(self._below), deque(self._exact)
        for partition in unassigned:
            if not below:
                self.assigned[exact.popleft()].append(partition)
                continue
            member = below.popleft()
            self.assigned[member].append(partition)
            (exact if len(self.assigned[member]) == self._min_quota else below).append(member)
