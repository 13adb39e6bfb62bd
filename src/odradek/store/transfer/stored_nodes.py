"""All nodes of a cluster, read from a store."""

from __future__ import annotations

import asyncio
from typing import Final

from odradek.store.layout import znode_paths
from odradek.store.port import Node, NoNode, Store

ROOTS: Final = (
    znode_paths.ADMIN,
    znode_paths.BROKERS,
    znode_paths.CLUSTER,
    znode_paths.CONFIG,
    znode_paths.CONSUMERS,
    znode_paths.CONTROLLER,
    znode_paths.CONTROLLER_EPOCH,
    znode_paths.FEATURE,
    znode_paths.LATEST_PRODUCER_ID_BLOCK,
    znode_paths.ISR_CHANGE_NOTIFICATION,
    znode_paths.LOG_DIR_EVENT_NOTIFICATION,
    znode_paths.ACL,
    znode_paths.ACL_EXTENDED,
    znode_paths.ACL_CHANGES,
    znode_paths.ACL_EXTENDED_CHANGES,
    znode_paths.DELEGATION_TOKEN,
)
"""Top-level nodes of a cluster. ZooKeeper may have others, of other programs."""

READS_MAX: Final = 1000
"""Calls at a time; a session has a smaller window of its own."""


async def read_nodes(store: Store) -> dict[str, Node]:
    """Return the nodes of the cluster by path, parents before their children."""
    nodes: dict[str, Node] = {}
    level = list(ROOTS)
    while level:
        parents = []
        for start in range(0, len(level), READS_MAX):
            window = level[start : start + READS_MAX]
            for path, node in zip(window, await store.get_many(window), strict=True):
                if node is not None:
                    nodes[path] = node
                    if node[1].num_children:
                        parents.append(path)
        level = []
        for start in range(0, len(parents), READS_MAX):
            window = parents[start : start + READS_MAX]
            listed = await asyncio.gather(*(_children(store, path) for path in window))
            level += [f"{path}/{name}" for path, names in zip(window, listed, strict=True) for name in names]
    return nodes


async def read_unknown_roots(store: Store) -> list[str]:
    """Return the top-level nodes that no cluster has, sorted."""
    return sorted({f"/{name}" for name in await store.children("/")} - set(ROOTS))


async def _children(store: Store, path: str) -> list[str]:
    try:
        return await store.children(path)
    except NoNode:
        return []
