"""Topics in the store: creation, assignment, deletion.

A topic is its node under ``/brokers/topics`` with the replica assignment; its config is under
``/config/topics``; partition states are in ``partition_states``. Creation writes config and assignment
together. Removal goes bottom up, the deletion mark last, so that an interrupted one is resumed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from odradek.store.configs import write_with_config
from odradek.store.controller_election import Fence, fenced_multi
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import TopicAssignment, decode_topic, encode_topic
from odradek.store.port import (
    MATCH_ANY_VERSION,
    CheckOp,
    CreateOp,
    DeleteOp,
    NodeExists,
    NoNode,
    Op,
    SetDataOp,
    Stat,
    Store,
    Watcher,
)

_OPS_PER_MULTI_MAX: Final = 1000
"""ZooKeeper limits requests to 1 MiB; a thousand deletions stay far below."""


class VersionedTopic(NamedTuple):
    """A topic's assignment, and the version of its znode."""

    assignment: TopicAssignment
    version: int


async def read_topics(
    store: Store, names: Iterable[str] | None = None, watcher: Watcher | None = None
) -> dict[str, VersionedTopic]:
    """Read these topics, or all; the watcher fires once when a topic is created or deleted."""
    if names is None:
        try:
            names = await (
                store.children(znode_paths.TOPICS)
                if watcher is None
                else store.watch_children(znode_paths.TOPICS, watcher)
            )
        except NoNode:
            return {}
    requested = list(names)
    nodes = await store.get_many(map(znode_paths.topic, requested))
    return {
        name: VersionedTopic(decode_topic(znode_paths.topic(name), node[0]), node[1].version)
        for name, node in zip(requested, nodes, strict=True)
        if node is not None
    }


async def read_topic_names(store: Store) -> set[str]:
    """Return the names of all topics."""
    try:
        return set(await store.children(znode_paths.TOPICS))
    except NoNode:
        return set()


async def catch_up(store: Store) -> None:
    """Wait until reads of topics and marks show what other sessions have written before this call.

    A ZooKeeper server may be behind others; only a write is ordered after theirs, and a check counts as one.
    """
    await store.multi([CheckOp(znode_paths.TOPICS)])


async def create_topic(
    store: Store, name: str, assignment: TopicAssignment, config: Mapping[str, str]
) -> None:
    """Create a topic; raises ``NodeExists`` with its path if it exists.

    A config left by a former topic of this name is replaced.
    """
    await store.ensure_path(znode_paths.TOPICS)
    await store.ensure_path(znode_paths.CONFIG_TOPICS)
    if await store.exists(znode_paths.topic(name)) is not None:
        raise NodeExists(znode_paths.topic(name))
    create = CreateOp(znode_paths.topic(name), encode_topic(assignment))
    await write_with_config(store, "topics", name, config, [create])


async def write_assignment(
    store: Store,
    name: str,
    assignment: TopicAssignment,
    version: int = MATCH_ANY_VERSION,
    fence: Fence | None = None,
) -> int:
    """Replace a topic's assignment (new partitions, a reassignment); return the new znode version."""
    results = await fenced_multi(
        store, fence, [SetDataOp(znode_paths.topic(name), encode_topic(assignment), version)]
    )
    stat = results[0]
    assert isinstance(stat, Stat)
    return stat.version


async def mark_for_deletion(store: Store, name: str) -> None:
    """Request the deletion of a topic from the controller; raises ``NodeExists`` if already requested."""
    await store.ensure_path(znode_paths.DELETE_TOPICS)
    await store.create(znode_paths.delete_topic(name))


async def read_marked_for_deletion(store: Store, watcher: Watcher | None = None) -> set[str]:
    """Return the topics marked for deletion; the watcher fires once when a mark is added or removed."""
    root = znode_paths.DELETE_TOPICS
    try:
        return set(await (store.children(root) if watcher is None else store.watch_children(root, watcher)))
    except NoNode:
        return set()


async def unmark_for_deletion(store: Store, names: Iterable[str], fence: Fence | None = None) -> None:
    """Remove the deletion marks of topics that do not exist."""
    for name in names:
        await _delete_existing(store, [znode_paths.delete_topic(name)], fence)


async def remove_topic(store: Store, name: str, fence: Fence | None = None) -> None:
    """Delete all nodes of a topic. Nodes that an earlier attempt deleted are skipped."""
    below = await _descendants(store, znode_paths.topic(name))
    for start in range(0, len(below), _OPS_PER_MULTI_MAX):
        await _delete_existing(store, below[start : start + _OPS_PER_MULTI_MAX], fence)
    await _delete_existing(
        store,
        [znode_paths.topic(name), znode_paths.config("topics", name), znode_paths.delete_topic(name)],
        fence,
    )


async def _descendants(store: Store, root: str) -> list[str]:
    """Return all nodes below one, children before their parents."""
    nodes: list[str] = []
    level = [root]
    while level:
        below = await asyncio.gather(*(_children_or_none(store, path) for path in level))
        level = [f"{path}/{name}" for path, names in zip(level, below, strict=True) for name in names]
        nodes.extend(level)
    return nodes[::-1]


async def _children_or_none(store: Store, path: str) -> list[str]:
    try:
        return await store.children(path)
    except NoNode:
        return []


async def _delete_existing(store: Store, node_paths: Sequence[str], fence: Fence | None) -> None:
    nodes = await store.get_many(node_paths)
    ops: list[Op] = [DeleteOp(path) for path, node in zip(node_paths, nodes, strict=True) if node is not None]
    if ops:
        await fenced_multi(store, fence, ops)
