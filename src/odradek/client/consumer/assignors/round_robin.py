"""``roundrobin``: all partitions in order, assigned to the members in turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from odradek.client.consumer.assignors.assignor import (
    Assignment,
    Member,
    PartitionRacks,
    RebalanceProtocol,
    partitions_of,
    subscribed_topics,
)
from odradek.model.ids import TopicPartition


class RoundRobinAssignor:
    """Assigns partitions one by one; members not subscribed to a topic are skipped.

    >>> from odradek.client.consumer.assignors import Member
    >>> no_racks = frozenset()
    >>> members = [Member("a", ("orders",)), Member("b", ("orders",))]
    >>> assigned = RoundRobinAssignor().assign({"orders": [no_racks] * 3}, members)
    >>> [str(partition) for partition in assigned["a"].partitions]
    ['orders-0', 'orders-2']
    """

    name: Final = "roundrobin"
    protocols: Final = frozenset({RebalanceProtocol.EAGER})

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        del topics
        return None

    def assign(self, topics: PartitionRacks, members: Sequence[Member]) -> Mapping[str, Assignment]:
        ordered = sorted(members, key=lambda member: member.rank)
        subscriptions = [frozenset(member.topics) for member in ordered]
        assigned: list[list[TopicPartition]] = [[] for _ in ordered]
        index = 0
        for topic in subscribed_topics(topics, members):
            for partition in partitions_of(topic, topics):
                while topic not in subscriptions[index]:
                    index = (index + 1) % len(ordered)
                assigned[index].append(partition)
                index = (index + 1) % len(ordered)
        return {
            member.member_id: Assignment(partitions)
            for member, partitions in zip(ordered, assigned, strict=True)
        }

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        """Do nothing: the assignor is stateless."""
