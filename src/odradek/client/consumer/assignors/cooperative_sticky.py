"""``cooperative-sticky``: the sticky assignment, for members that keep what they have while they join.

What has to change hands is withheld from its new owner until the old one has given it up; that one joins
again at once, and the next round hands it over. So nobody stops reading what stays with it.
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
)
from odradek.client.consumer.assignors.ownership import Claim
from odradek.client.consumer.assignors.previous_assignment import read_generation, write_generation
from odradek.client.consumer.assignors.sticky import stick


class CooperativeStickyAssignor:
    """Spreads partitions evenly; members read on while partitions of others change hands.

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
        return write_generation(self._generation)

    def assign(self, topics: Topics, members: Sequence[Member]) -> Mapping[str, Assignment]:
        claims = [_claim(member) for member in members]
        assigned, ownership = stick(topics, members, claims)
        held = {partition for member in members for partition in member.owned}
        return {
            member.member_id: Assignment(
                [
                    partition
                    for partition in assigned[member.member_id]
                    if partition not in ownership.disputed
                    and (partition not in held or partition in member.owned)
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
        generation = read_generation(member.user_data)
    return Claim(member.member_id, frozenset(member.topics), member.owned, generation)
