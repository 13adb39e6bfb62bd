"""``sticky``: as even as can be, and everybody keeps as much as that allows. An eager assignor.

Its members have given everything up when they join; what they had, they say in their user data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from odradek.client.consumer.assignors.assignor import (
    NO_GENERATION,
    Assignment,
    Member,
    RebalanceProtocol,
    Topics,
    wanted_topics,
)
from odradek.client.consumer.assignors.constrained_builder import ConstrainedAssignmentBuilder
from odradek.client.consumer.assignors.general_builder import GeneralAssignmentBuilder
from odradek.client.consumer.assignors.ownership import Claim, Ownership, settle
from odradek.client.consumer.assignors.previous_assignment import (
    PreviousAssignment,
    decode_previous_assignment,
    encode_previous_assignment,
)
from odradek.client.consumer.assignors.rack_awareness import RackAwareness
from odradek.model.ids import TopicPartition


class StickyAssignor:
    """Spreads partitions evenly and moves as few as that needs.

    >>> from odradek.client.consumer.assignors import Member
    >>> nowhere = frozenset()
    >>> members = [Member("a", ("orders",)), Member("b", ("orders",))]
    >>> spread = StickyAssignor().assign({"orders": [nowhere] * 4}, members)
    >>> [len(spread[member].partitions) for member in ("a", "b")]
    [2, 2]
    """

    name: Final = "sticky"
    protocols: Final = frozenset({RebalanceProtocol.EAGER})

    def __init__(self) -> None:
        self._memory: PreviousAssignment | None = None

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        del topics
        return None if self._memory is None else encode_previous_assignment(self._memory)

    def assign(self, topics: Topics, members: Sequence[Member]) -> Mapping[str, Assignment]:
        claims = [_claim(member) for member in members]
        assigned, _ = stick(topics, members, claims)
        return {member_id: Assignment(partitions) for member_id, partitions in assigned.items()}

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        self._memory = PreviousAssignment(tuple(assignment.partitions), generation)


def stick(
    topics: Topics, members: Sequence[Member], claims: Sequence[Claim]
) -> tuple[dict[str, list[TopicPartition]], Ownership]:
    """The assignment that follows from what members want and claim, and what became of the claims."""
    known = {topic: topics[topic] for topic in wanted_topics(topics, members)}
    ownership = settle(claims, known)
    racks = RackAwareness(known, members)
    wishes = {claim.member_id: claim.topics for claim in claims}
    if len(set(wishes.values())) == 1:
        return ConstrainedAssignmentBuilder(known, ownership, racks).build(), ownership
    return GeneralAssignmentBuilder(known, wishes, ownership, racks).build(), ownership


def _claim(member: Member) -> Claim:
    memory = decode_previous_assignment(member.user_data) or PreviousAssignment((), NO_GENERATION)
    return Claim(member.member_id, frozenset(member.topics), memory.partitions, memory.generation)
