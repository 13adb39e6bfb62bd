"""``sticky``: as balanced as possible, with as few moved partitions as possible. An eager assignor.

Members have revoked all partitions when they join; their user data holds their previous assignment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from odradek.client.consumer.assignors.assignor import (
    NO_GENERATION,
    Assignment,
    Member,
    PartitionRacks,
    RebalanceProtocol,
    subscribed_topics,
)
from odradek.client.consumer.assignors.constrained_builder import ConstrainedAssignmentBuilder
from odradek.client.consumer.assignors.general_builder import GeneralAssignmentBuilder
from odradek.client.consumer.assignors.ownership import Claim, Ownership, resolve_claims
from odradek.client.consumer.assignors.previous_assignment import (
    PreviousAssignment,
    decode_previous_assignment,
    encode_previous_assignment,
)
from odradek.client.consumer.assignors.rack_awareness import RackAwareness
from odradek.model.ids import TopicPartition


class StickyAssignor:
    """Balances partitions, and moves as few as that needs.

    >>> from odradek.client.consumer.assignors import Member
    >>> no_racks = frozenset()
    >>> members = [Member("a", ("orders",)), Member("b", ("orders",))]
    >>> assigned = StickyAssignor().assign({"orders": [no_racks] * 4}, members)
    >>> [len(assigned[member].partitions) for member in ("a", "b")]
    [2, 2]
    """

    name: Final = "sticky"
    protocols: Final = frozenset({RebalanceProtocol.EAGER})

    def __init__(self) -> None:
        self._previous: PreviousAssignment | None = None

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        del topics
        return None if self._previous is None else encode_previous_assignment(self._previous)

    def assign(self, topics: PartitionRacks, members: Sequence[Member]) -> Mapping[str, Assignment]:
        claims = [_claim(member) for member in members]
        assigned, _ = assign_sticky(topics, members, claims)
        return {member_id: Assignment(partitions) for member_id, partitions in assigned.items()}

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        self._previous = PreviousAssignment(tuple(assignment.partitions), generation)


def assign_sticky(
    topics: PartitionRacks, members: Sequence[Member], claims: Sequence[Claim]
) -> tuple[dict[str, list[TopicPartition]], Ownership]:
    """Return the assignment for these subscriptions and claims, and the resolved claims."""
    known = {topic: topics[topic] for topic in subscribed_topics(topics, members)}
    ownership = resolve_claims(claims, known)
    racks = RackAwareness(known, members)
    subscriptions = {claim.member_id: claim.topics for claim in claims}
    if len(set(subscriptions.values())) == 1:
        return ConstrainedAssignmentBuilder(known, ownership, racks).build(), ownership
    return GeneralAssignmentBuilder(known, subscriptions, ownership, racks).build(), ownership


def _claim(member: Member) -> Claim:
    previous = decode_previous_assignment(member.user_data) or PreviousAssignment((), NO_GENERATION)
    return Claim(member.member_id, frozenset(member.topics), previous.partitions, previous.generation)
