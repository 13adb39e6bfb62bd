"""``roundrobin``: all partitions in order, dealt out to the members in turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from odradek.client.consumer.assignors.assignor import (
    Assignment,
    Member,
    RebalanceProtocol,
    Topics,
    partitions_of,
    wanted_topics,
)
from odradek.model.ids import TopicPartition


class RoundRobinAssignor:
    """Deals out partitions one by one; a member that does not want a topic is passed over.

    >>> from odradek.client.consumer.assignors import Member
    >>> nowhere = frozenset()
    >>> members = [Member("a", ("orders",)), Member("b", ("orders",))]
    >>> dealt = RoundRobinAssignor().assign({"orders": [nowhere] * 3}, members)
    >>> [str(partition) for partition in dealt["a"].partitions]
    ['orders-0', 'orders-2']
    """

    name: Final = "roundrobin"
    protocols: Final = frozenset({RebalanceProtocol.EAGER})

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        del topics
        return None

    def assign(self, topics: Topics, members: Sequence[Member]) -> Mapping[str, Assignment]:
        circle = sorted(members, key=lambda member: member.rank)
        wants = [frozenset(member.topics) for member in circle]
        dealt: list[list[TopicPartition]] = [[] for _ in circle]
        turn = 0
        for topic in wanted_topics(topics, members):
            for partition in partitions_of(topic, topics):
                while topic not in wants[turn]:
                    turn = (turn + 1) % len(circle)
                dealt[turn].append(partition)
                turn = (turn + 1) % len(circle)
        return {
            member.member_id: Assignment(partitions) for member, partitions in zip(circle, dealt, strict=True)
        }

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        """Nothing is remembered."""
