"""Who says to own what: the starting point of the sticky assignors.

Two members may claim one partition, after one of them has missed a rebalance. The claim of the later
generation counts; two claims of the same generation cannot both be true, and neither counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from odradek.client.consumer.assignors.assignor import NO_GENERATION, Topics
from odradek.model.ids import TopicPartition


class Claim(NamedTuple):
    """What a member says to own, and since which generation."""

    member_id: str
    topics: frozenset[str]
    partitions: Sequence[TopicPartition] = ()
    generation: int = NO_GENERATION


class Ownership(NamedTuple):
    """What is left of the claims when they are held against each other."""

    owned: dict[str, list[TopicPartition]]
    """By member; each partition at most once, and only partitions that there are."""
    disputed: frozenset[TopicPartition]
    """Claimed twice in one generation."""
    earlier: dict[TopicPartition, str]
    """Who had a partition in a generation before the last one."""


def settle(claims: Sequence[Claim], topics: Topics) -> Ownership:
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
    return Ownership(owned, frozenset(disputed), _earlier(claims))


def _earlier(claims: Sequence[Claim]) -> dict[TopicPartition, str]:
    """Of the claims older than the last generation, the latest one of each partition."""
    last = max((claim.generation for claim in claims), default=NO_GENERATION)
    earlier: dict[TopicPartition, str] = {}
    for claim in sorted(claims, key=lambda claim: claim.generation):
        if claim.generation < last:
            earlier.update(dict.fromkeys(claim.partitions, claim.member_id))
    return earlier
