"""Topics in the store: made, grown, marked for deletion, removed.

A topic is its node under ``/brokers/topics`` with the replicas of each partition; its settings are under
``/config/topics``; states of its partitions are in ``partition_states``. Creation writes settings and
assignment together. Removal goes bottom up, the mark last, so that one cut short is taken up again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from odradek.store import znode_paths
from odradek.store.configs import write_with_config
from odradek.store.controller_election import Fence, fenced
from odradek.store.port import (
    MATCH_ANY_VERSION,
    Create,
    Delete,
    NodeExists,
    NoNode,
    Op,
    SetData,
    Stat,
    Store,
    Watcher,
)
from odradek.store.znodes import TopicAssignment, decode_topic, encode_topic

_OPS_PER_MULTI_MAX: Final = 1000
"""ZooKeeper takes requests of up to 1 MiB; a thousand deletions stay far below."""


class VersionedTopic(NamedTuple):
    """A topic's assignment, and the version of the node that holds it."""

    assignment: TopicAssignment
    version: int


async def read_topics(
    store: Store, names: Iterable[str] | None = None, watcher: Watcher | None = None
) -> dict[str, VersionedTopic]:
    """These topics, or all; with a watcher, one event when a topic comes or goes."""
    if names is None:
        try:
            names = await (
                store.children(znode_paths.TOPICS)
                if watcher is None
                else store.watch_children(znode_paths.TOPICS, watcher)
            )
        except NoNode:
            return {}
    asked = list(names)
    nodes = await store.get_many(map(znode_paths.topic, asked))
    return {
        name: VersionedTopic(decode_topic(znode_paths.topic(name), node[0]), node[1].version)
        for name, node in zip(asked, nodes, strict=True)
        if node is not None
    }


async def create_topic(
    store: Store, name: str, assignment: TopicAssignment, config: Mapping[str, str]
) -> None:
    """Make a topic; ``NodeExists`` with its path if it is there already.

    Settings that a topic of this name left behind are replaced.
    """
    await store.ensure_path(znode_paths.TOPICS)
    await store.ensure_path(znode_paths.CONFIG_TOPICS)
    if await store.exists(znode_paths.topic(name)) is not None:
        raise NodeExists(znode_paths.topic(name))
    made = Create(znode_paths.topic(name), encode_topic(assignment))
    await write_with_config(store, "topics", name, config, [made])


async def write_assignment(
    store: Store,
    name: str,
    assignment: TopicAssignment,
    version: int = MATCH_ANY_VERSION,
    fence: Fence | None = None,
) -> int:
    """Replace a topic's assignment (new partitions, a reassignment); give the node's new version."""
    results = await fenced(
        store, fence, [SetData(znode_paths.topic(name), encode_topic(assignment), version)]
    )
    stat = results[0]
    assert isinstance(stat, Stat)
    return stat.version


async def mark_for_deletion(store: Store, name: str) -> None:
    """Ask the controller to delete a topic; ``NodeExists`` if that was asked already."""
    await store.ensure_path(znode_paths.DELETE_TOPICS)
    await store.create(znode_paths.delete_topic(name))


async def read_marked_for_deletion(store: Store, watcher: Watcher | None = None) -> set[str]:
    """Topics that are to be deleted; with a watcher, one event when a mark is made or removed."""
    root = znode_paths.DELETE_TOPICS
    try:
        return set(await (store.children(root) if watcher is None else store.watch_children(root, watcher)))
    except NoNode:
        return set()


async def forget_deletion(store: Store, names: Iterable[str], fence: Fence | None = None) -> None:
    """Remove marks of topics that are not there to be deleted."""
    for name in names:
        await _delete_existing(store, [znode_paths.delete_topic(name)], fence)


async def remove_topic(store: Store, name: str, fence: Fence | None = None) -> None:
    """Delete all there is of a topic. What an earlier attempt already deleted is passed over."""
    below = await _descendants(store, znode_paths.topic(name))
    for start in range(0, len(below), _OPS_PER_MULTI_MAX):
        await _delete_existing(store, below[start : start + _OPS_PER_MULTI_MAX], fence)
    await _delete_existing(
        store,
        [znode_paths.topic(name), znode_paths.config("topics", name), znode_paths.delete_topic(name)],
        fence,
    )


async def _descendants(store: Store, root: str) -> list[str]:
    """All nodes below one, children before their parents."""
    found: list[str] = []
    level = [root]
    while level:
        below = await asyncio.gather(*(_children_or_none(store, path) for path in level))
        level = [f"{path}/{name}" for path, names in zip(level, below, strict=True) for name in names]
        found.extend(level)
    return found[::-1]


async def _children_or_none(store: Store, path: str) -> list[str]:
    try:
        return await store.children(path)
    except NoNode:
        return []


async def _delete_existing(store: Store, nodes: Sequence[str], fence: Fence | None) -> None:
    found = await store.get_many(nodes)
    ops: list[Op] = [Delete(path) for path, node in zip(nodes, found, strict=True) if node is not None]
    if ops:
        await fenced(store, fence, ops)
