"""Finalized features of the cluster: ``/feature``. The node's version is the finalized features epoch."""

from __future__ import annotations

from typing import NamedTuple

from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import FinalizedFeatures, decode_features, encode_features
from odradek.store.port import BadVersion, NodeExists, NoNode, Store, Watcher


class VersionedFeatures(NamedTuple):
    features: FinalizedFeatures
    epoch: int


async def watch_features(store: Store, watcher: Watcher) -> VersionedFeatures | None:
    """Return the features, None without the node; the watcher fires once when they change."""
    await store.watch_exists(znode_paths.FEATURE, watcher)
    return await read_features(store)


async def read_features(store: Store) -> VersionedFeatures | None:
    try:
        data, stat = await store.get(znode_paths.FEATURE)
    except NoNode:
        return None
    return VersionedFeatures(decode_features(znode_paths.FEATURE, data), stat.version)


async def enable_features(store: Store, node_version: int) -> None:
    """Create the node without features, or enable it; finalized features are kept.

    ``node_version`` is the version of its contents: 1 before inter-broker protocol 3.3-IV0, then 2.
    """
    try:
        data, stat = await store.get(znode_paths.FEATURE)
    except NoNode:
        try:
            await store.create(
                znode_paths.FEATURE, encode_features(FinalizedFeatures(True, {}, node_version))
            )
        except NodeExists:
            return  # another controller was first
        return
    current = decode_features(znode_paths.FEATURE, data)
    versions = current.versions if current.is_enabled else {}
    wanted = encode_features(FinalizedFeatures(True, versions, node_version))
    if wanted != data:
        try:
            await store.set(znode_paths.FEATURE, wanted, stat.version)
        except (BadVersion, NoNode):
            return  # another controller was first
