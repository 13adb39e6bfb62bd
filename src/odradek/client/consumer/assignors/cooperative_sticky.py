"""``cooperative-sticky``: the sticky assignment for members that keep their partitions while they join.

A partition that moves is withheld from its new owner until the old one has revoked it; the old owner rejoins
at once, and the next round assigns it. So members never stop reading partitions that stay.
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
)
from odradek.client.consumer.assignors.ownership import Claim
from odradek.client.consumer.assignors.previous_assignment import decode_generation, encode_generation
from odradek.client.consumer.assignors.sticky import assign_sticky


class CooperativeStickyAssignor:
    """Balances partitions; members keep reading while partitions of others move.

    >>> from odradek.client.consumer.assignors import Member
    >>> from odradek.model.ids import TopicPartition
    >>> owned = tuple(TopicPartition("orders", index) for index in range(4))
    >>> members = [Member("a", ("orders",), owned=owned, generation=1), Member("b", ("orders",))]
    >>> first_round = CooperativeStickyAssignor().assign({"orders": [frozenset()] * 4}, members)
    >>> [len(first_round[member].partitions) for member in ("a", "b")]
    [2, 0]
    """

    name: Final = "cooperative-sticky"
    protocols: Final = frozenset({RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER})

    def __init__(self) -> None:
        self._generation = NO_GENERATION

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        del topics
        return encode_generation(self._generation)

    def assign(self, topics: PartitionRacks, members: Sequence[Member]) -> Mapping[str, Assignment]:
        claims = [_claim(member) for member in members]
        assigned, ownership = assign_sticky(topics, members, claims)
        owned = {partition for member in members for partition in member.owned}
        return {
            member.member_id: Assignment(
                [
                    partition
                    for partition in assigned[member.member_id]
                    if partition not in ownership.disputed
                    and (partition not in owned or partition in member.owned)
                ]
            )
            for member in members
        }

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        del assignment
        self._generation = generation


def _claim(member: Member) -> Claim:
    generation = member.generation
    if generation == NO_GENERATION:
        generation = decode_generation(member.user_data)
    return Claim(member.member_id, frozenset(member.topics), member.owned, generation)
