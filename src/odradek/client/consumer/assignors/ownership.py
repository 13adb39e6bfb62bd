"""Partitions claimed by members, from which the sticky assignors start.

Two members may claim the same partition after one of them has missed a rebalance. The claim of the later
generation wins; two claims of the same generation contradict each other, and neither wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from odradek.client.consumer.assignors.assignor import NO_GENERATION, PartitionRacks
from odradek.model.ids import TopicPartition


class Claim(NamedTuple):
    """Partitions that a member claims to own, and the generation of the claim."""

    member_id: str
    topics: frozenset[str]
    partitions: Sequence[TopicPartition] = ()
    generation: int = NO_GENERATION


class Ownership(NamedTuple):
    """Claims after conflicts are resolved."""

    owned: dict[str, list[TopicPartition]]
    """By member; each existing partition at most once."""
    disputed: frozenset[TopicPartition]
    """Claimed twice in one generation."""
    previous_owners: dict[TopicPartition, str]
    """Owner of a partition in a generation before the last one."""


def resolve_claims(claims: Sequence[Claim], topics: PartitionRacks) -> Ownership:
    owners: dict[TopicPartition, Claim] = {}
    disputed: set[TopicPartition] = set()
    for claim in claims:
        for partition in claim.partitions:
            if partition.topic not in topics or not 0 <= partition.partition < len(topics[partition.topic]):
                continue
            other = owners.get(partition)
            if other is None or other.generation < claim.generation:
                owners[partition] = claim
                disputed.discard(partition)
            elif other.generation == claim.generation and other is not claim:
                disputed.add(partition)
    owned: dict[str, list[TopicPartition]] = {claim.member_id: [] for claim in claims}
    for partition, claim in owners.items():
        if partition not in disputed:
            owned[claim.member_id].append(partition)
    return Ownership(owned, frozenset(disputed), _previous_owners(claims))


def _previous_owners(claims: Sequence[Claim]) -> dict[TopicPartition, str]:
    """Return the latest claim of each partition that is older than the last generation."""
    last = max((claim.generation for claim in claims), default=NO_GENERATION)
    owners: dict[TopicPartition, str] = {}
    for claim in sorted(claims, key=lambda claim: claim.generation):
        if claim.generation < last:
            owners.update(dict.fromkeys(claim.partitions, claim.member_id))
    return owners
