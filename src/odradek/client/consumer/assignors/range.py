"""``range``: each member gets a contiguous range of each topic; ranges differ in length by at most one.

Topics with the same number of partitions and the same subscribers are co-partitioned: a member gets the same
partition numbers of all of them. With racks, rack-local partitions are assigned first, within the same
quotas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from odradek.client.consumer.assignors.assignor import (
    Assignment,
    Member,
    PartitionRacks,
    RebalanceProtocol,
    subscribed_topics,
)
from odradek.client.consumer.assignors.rack_awareness import RackAwareness
from odradek.model.ids import TopicPartition


class RangeAssignor:
    """Divides each topic into one range of partitions per member.

    >>> from odradek.client.consumer.assignors import Member
    >>> no_racks = frozenset()
    >>> members = [Member("a", ("orders",)), Member("b", ("orders",))]
    >>> assigned = RangeAssignor().assign({"orders": [no_racks] * 3}, members)
    >>> [str(partition) for partition in assigned["a"].partitions]
    ['orders-0', 'orders-1']
    """

    name: Final = "range"
    protocols: Final = frozenset({RebalanceProtocol.EAGER})

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        del topics
        return None

    def assign(self, topics: PartitionRacks, members: Sequence[Member]) -> Mapping[str, Assignment]:
        subscribers: dict[str, list[Member]] = {topic: [] for topic in subscribed_topics(topics, members)}
        for member in sorted(members, key=lambda member: member.rank):
            for topic in dict.fromkeys(member.topics):
                if topic in subscribers:
                    subscribers[topic].append(member)
        states = [
            _TopicAssignmentState(topic, topics[topic], subscribed)
            for topic, subscribed in subscribers.items()
            if topics[topic]
        ]
        _assign_rack_local(states)
        assigned: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
        for state in states:
            state.assign_remaining(lambda _member_id, _partition: True)
            for member_id, partitions in state.assigned.items():
                assigned[member_id] += [TopicPartition(state.topic, index) for index in sorted(partitions)]
        return {member_id: Assignment(partitions) for member_id, partitions in assigned.items()}

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        """Do nothing: the assignor is stateless."""


class _TopicAssignmentState:
    """Unassigned partitions of one topic, and the remaining quota of each member."""

    def __init__(self, topic: str, racks: Sequence[frozenset[str]], members: Sequence[Member]) -> None:
        self.topic = topic
        self.racks = RackAwareness({topic: racks}, members)
        self.partition_count = len(racks)
        self.members = tuple((member.member_id, member.rack) for member in members)
        self.assigned: dict[str, list[int]] = {member.member_id: [] for member in members}
        self._unassigned = dict.fromkeys(range(len(racks)))
        self._quota, self._extra_left = divmod(len(racks), len(members))

    def remaining_quota(self, member_id: str) -> int:
        return max(0, self._quota + (self._extra_left > 0) - len(self.assigned[member_id]))

    def racks_match(self, member_id: str, partition: int) -> bool:
        """Return True if a replica is in the member's rack; members without a rack match everything."""
        rack = self.racks.of_member.get(member_id)
        return rack is None or rack in self.racks.of_partition(TopicPartition(self.topic, partition))

    def assign(self, member_id: str, partitions: Sequence[int]) -> None:
        assigned = self.assigned[member_id]
        assigned += partitions
        if len(assigned) > self._quota:
            self._extra_left -= 1
        for partition in partitions:
            del self._unassigned[partition]

    def assign_remaining(self, may_assign: Callable[[str, int], bool]) -> None:
        """Assign the first unassigned partitions to each member in turn, up to its quota."""
        for member_id in self.assigned:
            quota = self.remaining_quota(member_id)
            partitions: list[int] = []
            for partition in self._unassigned:
                if len(partitions) == quota:
                    break
                if may_assign(member_id, partition):
                    partitions.append(partition)
            if partitions:
                self.assign(member_id, partitions)


def _assign_rack_local(states: list[_TopicAssignmentState]) -> None:
    if not any(state.racks.is_relevant for state in states):
        return
    copartitioned: dict[object, list[_TopicAssignmentState]] = {}
    for state in states:
        # Without racks of members Kafka treats all topics as co-partitioned.
        count = state.partition_count if state.racks.of_member else 0
        copartitioned.setdefault((state.members, count), []).append(state)
    for group in copartitioned.values():
        if len(group) > 1:
            _assign_copartitioned(group)
        elif group[0].racks.is_relevant:
            group[0].assign_remaining(group[0].racks_match)


def _assign_copartitioned(states: list[_TopicAssignmentState]) -> None:
    """Assign a partition number of all these topics to the first member whose rack matches all of them."""
    if not states[0].racks.of_member:
        return
    members = [member_id for member_id, _ in states[0].members]
    for partition in range(states[0].partition_count):
        for member_id in members:
            if all(
                state.racks_match(member_id, partition) and state.remaining_quota(member_id)
                for state in states
            ):
                for state in states:
                    state.assign(member_id, [partition])
                break
