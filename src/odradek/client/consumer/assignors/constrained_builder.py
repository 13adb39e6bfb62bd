"""Sticky assignment where all members want the same topics: everybody gets its share, and keeps what it can.

A share is the number of partitions through the number of members, rounded down or up; exactly as many
members have the larger one as there is a remainder. This needs one pass over members and one over
partitions, where ``unequal_wishes`` must weigh each move.
"""

from __future__ import annotations

from collections import deque

from odradek.client.consumer.assignors.assignor import Topics, partitions_of
from odradek.client.consumer.assignors.ownership import Ownership
from odradek.client.consumer.assignors.rack_awareness import RackAwareness
from odradek.model.ids import TopicPartition


class ConstrainedAssignmentBuilder:
    """An assignment in the making."""

    def __init__(self, topics: Topics, ownership: Ownership, racks: RackAwareness) -> None:
        self._ownership = ownership
        self._racks = racks
        self._everything = [tp for topic in sorted(topics) for tp in partitions_of(topic, topics)]
        self.assigned: dict[str, list[TopicPartition]] = {member: [] for member in ownership.owned}
        self._share, self._larger_left = divmod(len(self._everything), len(self.assigned))
        # Members below the smaller share, and those that have it and may get the larger one.
        self._below: list[str] = []
        self._exact: list[str] = []

    def build(self) -> dict[str, list[TopicPartition]]:
        self._keep()
        kept = {tp for partitions in self.assigned.values() for tp in partitions}
        left = [tp for tp in self._everything if tp not in kept]
        self._below.sort()
        self._exact.sort()
        if self._racks.matter:
            left = self._deal_near(self._racks.by_readers_near(left))
        self._deal(left)
        return self.assigned

    def _keep(self) -> None:
        """Let each member keep what it owns, up to its share."""
        for member in sorted(self.assigned):
            owned = sorted(
                (tp for tp in self._ownership.owned[member] if not self._racks.is_far(member, tp)),
                key=lambda tp: (tp.partition, tp.topic),
            )
            if len(owned) < self._share:
                self.assigned[member] += owned
                self._below.append(member)
            elif len(owned) > self._share and self._larger_left:
                self.assigned[member] += owned[: self._share + 1]
                self._larger_left -= 1
            else:
                self.assigned[member] += owned[: self._share]
                self._exact.append(member)

    def _deal_near(self, left: list[TopicPartition]) -> list[TopicPartition]:
        """Give partitions to members near them; gives those that found no such member."""
        far: list[TopicPartition] = []
        turn = 0
        for partition in left:
            index = self._next_near(partition, self._below, turn)
            if index is not None:
                member = self._below[index]
                self.assigned[member].append(partition)
                if len(self.assigned[member]) == self._share:
                    self._exact.append(self._below.pop(index))
                else:
                    index += 1
                turn = index % len(self._below) if self._below else 0
                continue
            index = self._next_near(partition, self._exact, 0) if self._larger_left else None
            if index is None:
                far.append(partition)
            else:
                self.assigned[self._exact.pop(index)].append(partition)
                self._larger_left -= 1
        return far

    def _next_near(self, partition: TopicPartition, members: list[str], start: int) -> int | None:
        for step in range(len(members)):
            index = (start + step) % len(members)
            if self._racks.is_near(members[index], partition):
                return index
        return None

    def _deal(self, left: list[TopicPartition]) -> None:
        """In turn to those below their share, then one more to each of the others until none are left."""
        below, exact = deque(self._below), deque(self._exact)
        for partition in left:
            if not below:
                self.assigned[exact.popleft()].append(partition)
                continue
            member = below.popleft()
            self.assigned[member].append(partition)
            (exact if len(self.assigned[member]) == self._share else below).append(member)
