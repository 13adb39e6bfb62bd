"""Snapshot of the metadata that an assignment is based on; a change triggers a rebalance."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from odradek.client.consumer.assignors import PartitionRacks
from odradek.client.network.metadata import ClusterMetadata
from odradek.model.errors import ErrorCode

_NO_RACKS: frozenset[str] = frozenset()


def snapshot(metadata: ClusterMetadata, names: Iterable[str]) -> PartitionRacks:
    """Return the racks of each partition of known topics; topics without partitions are omitted."""
    return {
        name: tuple(_racks(metadata, partition.replicas) for partition in topic.partitions)
        for name in names
        if (topic := metadata.topics.get(name)) is not None and topic.partitions
    }


def matching_topics(
    metadata: ClusterMetadata, matches: Callable[[str], bool], *, include_internal: bool
) -> frozenset[str]:
    """Return the topics whose name matches; internal topics only with ``include_internal``."""
    return frozenset(
        name
        for name, topic in metadata.topics.items()
        if topic.error is ErrorCode.NONE and (include_internal or not topic.is_internal) and matches(name)
    )


def _racks(metadata: ClusterMetadata, replicas: Iterable[int]) -> frozenset[str]:
    racks = (metadata.nodes[node].rack for node in replicas if node in metadata.nodes)
    return frozenset(rack for rack in racks if rack) or _NO_RACKS
