"""What an assignor is: the function by which a group's leader says who reads what.

An assignor decides from plain values: which topics there are and how many partitions each has, and what the
members want. Those that come with the client are ``range``, ``roundrobin``, ``sticky`` and
``cooperative-sticky``; another one is an object with the attributes and methods of ``Assignor``.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from odradek.model.ids import TopicPartition

NO_GENERATION = -1

Topics = Mapping[str, Sequence[frozenset[str]]]
"""By topic: for each of its partitions, in order, the racks that hold a replica of it."""


class RebalanceProtocol(enum.Enum):
    """How members change over to a new assignment.

    >>> RebalanceProtocol("eager")
    <RebalanceProtocol.EAGER: 'eager'>
    """

    EAGER = "eager"
    """Everybody gives up everything before joining again."""

    COOPERATIVE = "cooperative"
    """Everybody keeps what it has, and gives up only what another one is to get."""


class Member(NamedTuple):
    """A member of the group as the leader sees it.

    >>> Member("m-1", ("castle",), rack="north").topics
    ('castle',)
    """

    member_id: str
    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    """What the member has while it joins; it says so from version 1 of the subscription on."""
    generation: int = NO_GENERATION
    """The generation in which it got that, from version 2 on."""
    instance_id: str | None = None
    rack: str | None = None

    @property
    def rank(self) -> tuple[bool, str]:
        """Static members first, by instance, so that their turn stays the same when they come back."""
        return (self.instance_id is None, self.instance_id or self.member_id)


class Assignment(NamedTuple):
    """What one member gets, and what the assignor has to say to it.

    >>> Assignment([TopicPartition("castle", 0)]).partitions
    [TopicPartition(topic='castle', partition=0)]
    """

    partitions: Sequence[TopicPartition]
    user_data: bytes | None = None


class Assignor(Protocol):
    """Says who reads what; one that another program brings has this form.

    >>> from odradek import Assignment, Member, RebalanceProtocol, TopicPartition
    >>> class EverythingToTheFirst:
    ...     name = "first"
    ...     protocols = frozenset({RebalanceProtocol.EAGER})
    ...     def user_data(self, topics):
    ...         return None
    ...     def assign(self, topics, members):
    ...         first = min(member.member_id for member in members)
    ...         everything = [TopicPartition(t, p) for t, racks in topics.items() for p in range(len(racks))]
    ...         return {m.member_id: Assignment(everything if m.member_id == first else []) for m in members}
    ...     def on_assignment(self, assignment, generation):
    ...         pass
    >>> members = [Member("b", ("castle",)), Member("a", ("castle",))]
    >>> EverythingToTheFirst().assign({"castle": [frozenset()]}, members)["a"].partitions
    [TopicPartition(topic='castle', partition=0)]
    """

    @property
    def name(self) -> str:
        """By which the members of a group agree on an assignor."""
        ...

    @property
    def protocols(self) -> frozenset[RebalanceProtocol]:
        """How members that use it may change over."""
        ...

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        """What this member says to the leader's assignor when it joins."""
        ...

    def assign(self, topics: Topics, members: Sequence[Member]) -> Mapping[str, Assignment]:
        """Called at the leader. Members that the result does not name get nothing."""
        ...

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        """Called at each member with what it got, before its rebalance listener is."""
        ...


def partitions_of(topic: str, topics: Topics) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for index in range(len(topics[topic]))]


def wanted_topics(topics: Topics, members: Sequence[Member]) -> list[str]:
    """The topics that are there and that some member wants, sorted."""
    return sorted({topic for member in members for topic in member.topics if topic in topics})
