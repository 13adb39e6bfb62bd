"""Offsets committed with OffsetCommit version 0, kept in the store: ``/consumers/G/offsets/T/P``."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.model.ids import TopicPartition
from odradek.store.layout import znode_paths
from odradek.store.layout.node_paths import check_path, parent_of
from odradek.store.layout.znodes import decode_number, encode_number
from odradek.store.port import NoNode, Store


async def write_consumer_offset(store: Store, group: str, partition: TopicPartition, offset: int) -> None:
    path, data = znode_paths.consumer_offset(group, partition), encode_number(offset)
    try:
        await store.set(path, data)
    except NoNode:
        await store.ensure_path(parent_of(path))
        await store.ensure_path(path)
        await store.set(path, data)


async def read_consumer_offsets(
    store: Store, group: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return the stored offsets; partitions without one are omitted."""
    requested = list(partitions)
    node_paths = [znode_paths.consumer_offset(group, partition) for partition in requested]
    for path in node_paths:
        check_path(path)
    return {
        partition: decode_number(path, node[0])
        for partition, path, node in zip(requested, node_paths, await store.get_many(node_paths), strict=True)
        if node is not None and node[0]
    }
