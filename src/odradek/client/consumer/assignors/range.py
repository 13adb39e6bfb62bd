"""``range``: of each topic, each member gets a run of partitions of the same length, give or take one.

Topics with equally many partitions and the same readers are cut at the same places: a member gets the same
partition numbers of all of them. With racks, near partitions are handed out first, under the same quotas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from odradek.client.consumer.assignors.assignor import (
    Assignment,
    Member,
    RebalanceProtocol,
    Topics,
    wanted_topics,
)
from odradek.client.consumer.assignors.rack_awareness import RackAwareness
from odradek.model.ids import TopicPartition


class RangeAssignor:
    """Cuts each topic into one run of partitions per member.

    >>> from odradek.client.consumer.assignors import Member
    >>> nowhere = frozenset()
    >>> members = [Member("a", ("orders",)), Member("b", ("orders",))]
    >>> cut = RangeAssignor().assign({"orders": [nowhere] * 3}, members)
    >>> [str(partition) for partition in cut["a"].partitions]
    ['orders-0', 'orders-1']
    """

    name: Final = "range"
    protocols: Final = frozenset({RebalanceProtocol.EAGER})

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        del topics
        return None

    def assign(self, topics: Topics, members: Sequence[Member]) -> Mapping[str, Assignment]:
        readers: dict[str, list[Member]] = {topic: [] for topic in wanted_topics(topics, members)}
        for member in sorted(members, key=lambda member: member.rank):
            for topic in dict.fromkeys(member.topics):
                if topic in readers:
                    readers[topic].append(member)
        cuts = [_Cut(topic, topics[topic], those) for topic, those in readers.items() if topics[topic]]
        _assign_near(cuts)
        assigned: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
        for cut in cuts:
            cut.take_all(lambda _member_id, _partition: True)
            for member_id, partitions in cut.taken.items():
                assigned[member_id] += [TopicPartition(cut.topic, index) for index in sorted(partitions)]
        return {member_id: Assignment(partitions) for member_id, partitions in assigned.items()}

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        """Nothing is remembered."""


class _Cut:
    """One topic while it is handed out: what is left of it, and how much each member may still get."""

    def __init__(self, topic: str, racks: Sequence[frozenset[str]], members: Sequence[Member]) -> None:
        self.topic = topic
        self.racks = RackAwareness({topic: racks}, members)
        self.partition_count = len(racks)
        self.members = tuple((member.member_id, member.rack) for member in members)
        self.taken: dict[str, list[int]] = {member.member_id: [] for member in members}
        self._left = dict.fromkeys(range(len(racks)))
        self._quota, self._extra_left = divmod(len(racks), len(members))

    def room(self, member_id: str) -> int:
        return max(0, self._quota + (self._extra_left > 0) - len(self.taken[member_id]))

    def is_near(self, member_id: str, partition: int) -> bool:
        """Members that have not said where they are, are near everything."""
        rack = self.racks.of_member.get(member_id)
        return rack is None or rack in self.racks.of_partition(TopicPartition(self.topic, partition))

    def take(self, member_id: str, partitions: Sequence[int]) -> None:
        taken = self.taken[member_id]
        taken += partitions
        if len(taken) > self._quota:
            self._extra_left -= 1
        for partition in partitions:
            del self._left[partition]

    def take_all(self, may_take: Callable[[str, int], bool]) -> None:
        """Each member in turn takes the first of what is left, as much as it may."""
        for member_id in self.taken:
            room = self.room(member_id)
            partitions: list[int] = []
            for partition in self._left:
                if len(partitions) == room:
                    break
                if may_take(member_id, partition):
                    partitions.append(partition)
            if partitions:
                self.take(member_id, partitions)


def _assign_near(cuts: list[_Cut]) -> None:
    if not any(cut.racks.matter for cut in cuts):
        return
    alike: dict[object, list[_Cut]] = {}
    for cut in cuts:
        # Without racks of members there is nothing to compare, and Kafka counts such topics as alike.
        count = cut.partition_count if cut.racks.of_member else 0
        alike.setdefault((cut.members, count), []).append(cut)
    for group in alike.values():
        if len(group) > 1:
            _assign_near_together(group)
        elif group[0].racks.matter:
            group[0].take_all(group[0].is_near)


def _assign_near_together(cuts: list[_Cut]) -> None:
    """Give a partition number of all these topics to the first member that is near to all of them."""
    if not cuts[0].racks.of_member:
        return
    members = [member_id for member_id, _ in cuts[0].members]
    for partition in range(cuts[0].partition_count):
        for member_id in members:
            if all(cut.is_near(member_id, partition) and cut.room(member_id) for cut in cuts):
                for cut in cuts:
                    cut.take(member_id, [partition])
                break
