"""What a group's assignment was made from: a change of it is a reason to rebalance."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from odradek.client.consumer.assignors import Topics
from odradek.client.network.metadata import ClusterMetadata
from odradek.model.errors import ErrorCode

_NOWHERE: frozenset[str] = frozenset()


def snapshot(metadata: ClusterMetadata, topics: Iterable[str]) -> Topics:
    """Partitions of topics that are known, with the racks of each; topics without any are left out."""
    return {
        topic: tuple(_racks(metadata, each.replicas) for each in found.partitions)
        for topic in topics
        if (found := metadata.topics.get(topic)) is not None and found.partitions
    }


def matching(
    metadata: ClusterMetadata, matches: Callable[[str], bool], *, with_internal: bool
) -> frozenset[str]:
    """Topics whose name matches; the cluster's own only if they are wanted."""
    return frozenset(
        name
        for name, topic in metadata.topics.items()
        if topic.error is ErrorCode.NONE and (with_internal or not topic.is_internal) and matches(name)
    )


def _racks(metadata: ClusterMetadata, replicas: Iterable[int]) -> frozenset[str]:
    racks = (metadata.nodes[node].rack for node in replicas if node in metadata.nodes)
    return frozenset(rack for rack in racks if rack) or _NOWHERE
