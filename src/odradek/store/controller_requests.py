"""Requests to the controller that tools and brokers write to the store.

Tools write ``/admin/reassign_partitions`` and ``/admin/preferred_replica_election``: the controller deletes
the node when it is done, and no other request is accepted before. Brokers add sequence nodes under
``/isr_change_notification`` and ``/log_dir_event_notification``, which the controller deletes once it has
read them.

A node that cannot be decoded is logged, and read as if it were empty, so that the controller deletes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple, TypeVar

from odradek.model.ids import TopicPartition
from odradek.store.controller_election import Fence, fenced_multi
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import (
    decode_log_dir_event,
    decode_partitions,
    decode_reassignment,
    encode_reassignment,
)
from odradek.store.port import (
    BadPayload,
    CreateOp,
    DeleteOp,
    NodeExists,
    NoNode,
    Op,
    SetDataOp,
    Store,
    StoreError,
    Watcher,
)
from odradek.telemetry import events

_DELETIONS_PER_MULTI_MAX = 1000
_ATTEMPTS_MAX = 10

T = TypeVar("T")
ReassignmentTargets = dict[TopicPartition, tuple[int, ...]]

log = events.logger("store")


class Notifications(NamedTuple):
    """Names of notification nodes, oldest first, and the partitions or broker ids that they name."""

    names: tuple[str, ...]
    partitions: frozenset[TopicPartition] = frozenset()
    broker_ids: frozenset[int] = frozenset()


async def watch_reassignment_request(store: Store, watcher: Watcher) -> ReassignmentTargets | None:
    """Return the target replicas of ``/admin/reassign_partitions``; None without the node.

    The watcher fires once when the node is created, changed or deleted.
    """
    await store.watch_exists(znode_paths.REASSIGN_PARTITIONS, watcher)
    return await _read_node(store, znode_paths.REASSIGN_PARTITIONS, decode_reassignment, {})


async def read_reassignment_request(store: Store) -> ReassignmentTargets:
    """Return the target replicas of ``/admin/reassign_partitions``; none without the node."""
    return await _read_node(store, znode_paths.REASSIGN_PARTITIONS, decode_reassignment, {}) or {}


async def write_reassignment_request(
    store: Store, targets: Mapping[TopicPartition, tuple[int, ...]], fence: Fence | None = None
) -> None:
    """Write the targets that are left; without any, delete the node."""
    path, data = znode_paths.REASSIGN_PARTITIONS, encode_reassignment(targets)
    if not targets:
        await _delete(store, path, fence)
        return
    for _ in range(_ATTEMPTS_MAX):
        stat = await store.exists(path)
        op = CreateOp(path, data) if stat is None else SetDataOp(path, data)
        try:
            await fenced_multi(store, fence, [op])
        except (NodeExists, NoNode):
            continue  # created or deleted meanwhile
        return
    raise StoreError(path, f"was created or deleted during each of {_ATTEMPTS_MAX} attempts to write it")


async def watch_preferred_election_request(
    store: Store, watcher: Watcher
) -> Collection[TopicPartition] | None:
    """Return the partitions of ``/admin/preferred_replica_election``; None without the node.

    The watcher fires once when the node is created, changed or deleted.
    """
    await store.watch_exists(znode_paths.PREFERRED_REPLICA_ELECTION, watcher)
    return await _read_node(store, znode_paths.PREFERRED_REPLICA_ELECTION, decode_partitions, [])


async def delete_preferred_election_request(store: Store, fence: Fence | None = None) -> None:
    await _delete(store, znode_paths.PREFERRED_REPLICA_ELECTION, fence)


async def watch_isr_change_notifications(store: Store, watcher: Watcher) -> Notifications:
    """Return the partitions whose ISR changed; the watcher fires once when a notification is added."""
    root = znode_paths.ISR_CHANGE_NOTIFICATION
    names, partitions = await _watch_sequence(
        store, root, znode_paths.ISR_CHANGE_PREFIX, watcher, decode_partitions
    )
    return Notifications(names, partitions=frozenset(p for listed in partitions for p in listed))


async def watch_log_dir_notifications(store: Store, watcher: Watcher) -> Notifications:
    """Return the brokers with failed log directories; the watcher fires once when a notification is added."""
    root = znode_paths.LOG_DIR_EVENT_NOTIFICATION
    names, broker_ids = await _watch_sequence(
        store, root, znode_paths.LOG_DIR_EVENT_PREFIX, watcher, decode_log_dir_event
    )
    return Notifications(names, broker_ids=frozenset(broker_ids))


async def delete_isr_change_notifications(
    store: Store, names: Iterable[str], fence: Fence | None = None
) -> None:
    await _delete_each(store, znode_paths.ISR_CHANGE_NOTIFICATION, names, fence)


async def delete_log_dir_notifications(
    store: Store, names: Iterable[str], fence: Fence | None = None
) -> None:
    await _delete_each(store, znode_paths.LOG_DIR_EVENT_NOTIFICATION, names, fence)


async def _read_node(store: Store, path: str, decode: Callable[[str, bytes], T], empty: T) -> T | None:
    try:
        data, _ = await store.get(path)
    except NoNode:
        return None
    try:
        return decode(path, data)
    except BadPayload as error:
        log.error("controller_request_not_decoded", reason=str(error))
        return empty


async def _watch_sequence(
    store: Store, root: str, prefix: str, watcher: Watcher, decode: Callable[[str, bytes], T]
) -> tuple[tuple[str, ...], list[T]]:
    """Return the names of the sequence nodes under ``root``, and the contents that can be decoded."""
    await store.ensure_path(root)
    children = await store.watch_children(root, watcher)
    names = tuple(sorted(name for name in children if name.startswith(prefix)))
    contents = []
    for name, node in zip(names, await store.get_many(f"{root}/{name}" for name in names), strict=True):
        if node is not None:
            try:
                contents.append(decode(f"{root}/{name}", node[0]))
            except BadPayload as error:
                log.error("notification_not_decoded", reason=str(error))
    return names, contents


async def _delete(store: Store, path: str, fence: Fence | None) -> None:
    try:
        await fenced_multi(store, fence, [DeleteOp(path)])
    except NoNode:
        return


async def _delete_each(store: Store, root: str, names: Iterable[str], fence: Fence | None) -> None:
    paths = [f"{root}/{name}" for name in names]
    for start in range(0, len(paths), _DELETIONS_PER_MULTI_MAX):
        portion = paths[start : start + _DELETIONS_PER_MULTI_MAX]
        nodes = await store.get_many(portion)
        ops: list[Op] = [
            DeleteOp(path) for path, node in zip(portion, nodes, strict=True) if node is not None
        ]
        if ops:
            await fenced_multi(store, fence, ops)
