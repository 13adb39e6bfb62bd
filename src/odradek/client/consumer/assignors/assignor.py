"""The interface of partition assignors, which run on the group leader.

An assignor is a function of plain values: topics with their partitions, and members with their
subscriptions. The client includes ``range``, ``roundrobin``, ``sticky`` and ``cooperative-sticky``; a custom
one is an object with the attributes and methods of ``Assignor``.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from odradek.model.ids import TopicPartition

NO_GENERATION = -1

PartitionRacks = Mapping[str, Sequence[frozenset[str]]]
"""By topic: the racks of the replicas of each partition, in order."""


class RebalanceProtocol(enum.Enum):
    """Rebalance protocol of a group: revoke all partitions, or only those that move.

    >>> RebalanceProtocol("eager")
    <RebalanceProtocol.EAGER: 'eager'>
    """

    EAGER = "eager"
    """Members revoke all partitions before they rejoin."""

    COOPERATIVE = "cooperative"
    """Members keep their partitions, and revoke only those assigned to others."""


class Member(NamedTuple):
    """A member of the group, as passed to the assignor.

    >>> Member("m-1", ("castle",), rack="north").topics
    ('castle',)
    """

    member_id: str
    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    """Partitions that the member owns when it joins (subscription version 1 and later)."""
    generation: int = NO_GENERATION
    """Generation in which it got them (version 2 and later)."""
    instance_id: str | None = None
    rack: str | None = None

    @property
    def rank(self) -> tuple[bool, str]:
        """Sort key: static members first, by instance id, so that their order survives a restart."""
        return (self.instance_id is None, self.instance_id or self.member_id)


class Assignment(NamedTuple):
    """Partitions of one member, and user data for its assignor.

    >>> Assignment([TopicPartition("castle", 0)]).partitions
    [TopicPartition(topic='castle', partition=0)]
    """

    partitions: Sequence[TopicPartition]
    user_data: bytes | None = None


class Assignor(Protocol):
    """Interface of an assignor.

    >>> from odradek import Assignment, Member, RebalanceProtocol, TopicPartition
    >>> class FirstMemberAssignor:
    ...     name = "first"
    ...     protocols = frozenset({RebalanceProtocol.EAGER})
    ...     def user_data(self, topics):
    ...         return None
    ...     def assign(self, topics, members):
    ...         first = min(member.member_id for member in members)
    ...         partitions = [TopicPartition(t, p) for t, racks in topics.items() for p in range(len(racks))]
    ...         return {m.member_id: Assignment(partitions if m.member_id == first else []) for m in members}
    ...     def on_assignment(self, assignment, generation):
    ...         pass
    >>> members = [Member("b", ("castle",)), Member("a", ("castle",))]
    >>> FirstMemberAssignor().assign({"castle": [frozenset()]}, members)["a"].partitions
    [TopicPartition(topic='castle', partition=0)]
    """

    @property
    def name(self) -> str:
        """Name by which members agree on an assignor."""
        ...

    @property
    def protocols(self) -> frozenset[RebalanceProtocol]:
        """Supported rebalance protocols."""
        ...

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        """Return this member's data for the leader's assignor, sent when it joins."""
        ...

    def assign(self, topics: PartitionRacks, members: Sequence[Member]) -> Mapping[str, Assignment]:
        """Assign partitions; called on the leader. Members missing in the result get none."""
        ...

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        """Receive this member's assignment; called before its rebalance listener."""
        ...


def partitions_of(topic: str, topics: PartitionRacks) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for index in range(len(topics[topic]))]


def subscribed_topics(topics: PartitionRacks, members: Sequence[Member]) -> list[str]:
    """Return the existing topics that some member subscribes to, sorted."""
    return sorted({topic for member in members for topic in member.topics if topic in topics})
