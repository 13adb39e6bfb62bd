"""Dynamic configs of topics, brokers, clients, users and IPs, and the notifications of their changes.

A change and its notification under ``/config/changes`` are one write, so no broker can miss it. Brokers
watch that node's children, and reload the configs named by notifications they have not seen. Notifications
are deleted after a while; a broker that was down longer reads all configs at startup anyway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import (
    decode_config,
    decode_config_change,
    encode_config,
    encode_config_change,
)
from odradek.store.port import (
    BadPayload,
    BadVersion,
    CreateOp,
    DeleteOp,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    SetDataOp,
    Store,
    StoreError,
    Watcher,
)

CHANGE_KEPT_MS: Final = 15 * 60 * 1000
_ATTEMPTS_MAX: Final = 10
_CONCURRENT_READS: Final = 256


class ConfigChange(NamedTuple):
    """A notification: its node's name, and the entity relative to ``/config``, such as ``topics/orders``.

    ``entity_path`` is None for a notification that cannot be decoded; it must not hide the others.
    """

    name: str
    entity_path: str | None


async def read_config(store: Store, entity_type: str, name: str) -> dict[str, str]:
    """Return the configs of one entity; none if it has no node."""
    path = znode_paths.config(entity_type, name)
    try:
        data, _ = await store.get(path)
    except NoNode:
        return {}
    return decode_config(path, data)


async def read_configs(store: Store, entity_type: str) -> dict[str, dict[str, str]]:
    """Return the configs of all entities of a type, by name."""
    try:
        names = await store.children(f"{znode_paths.CONFIG}/{entity_type}")
    except NoNode:
        return {}
    return await read_configs_of(store, entity_type, names)


async def read_configs_of(store: Store, entity_type: str, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the configs of those entities that have a node, by name."""
    nodes = await store.get_many(znode_paths.config(entity_type, name) for name in names)
    return {
        name: decode_config(znode_paths.config(entity_type, name), node[0])
        for name, node in zip(names, nodes, strict=True)
        if node is not None
    }


async def read_pair_configs(store: Store) -> dict[str, dict[str, str]]:
    """Return the configs of all users with a client id, by name below ``/config/users``."""
    try:
        users = await store.children(znode_paths.CONFIG_USERS)
    except NoNode:
        return {}
    names: list[str] = []
    for start in range(0, len(users), _CONCURRENT_READS):
        batch = users[start : start + _CONCURRENT_READS]
        for pairs in await asyncio.gather(*(_pair_names(store, user) for user in batch)):
            names += pairs
    return await read_configs_of(store, "users", names)


async def read_user_pair_configs(store: Store, user: str) -> dict[str, dict[str, str]]:
    """Return the configs of one user's client ids, by name below ``/config/users``."""
    return await read_configs_of(store, "users", await _pair_names(store, user))


async def _pair_names(store: Store, user: str) -> list[str]:
    try:
        clients = await store.children(f"{znode_paths.config('users', user)}/clients")
    except NoNode:
        return []
    return [f"{user}/clients/{client_id}" for client_id in clients]


async def update_config(
    store: Store, entity_type: str, name: str, change: Callable[[dict[str, str]], dict[str, str]]
) -> None:
    """Change the configs of an entity and notify the brokers. A node without configs is deleted.

    ``change`` returns the new configs for the current ones; it is called again if another broker wrote them
    meanwhile, so that no change is lost.
    """
    path = znode_paths.config(entity_type, name)
    for _ in range(_ATTEMPTS_MAX):
        [node] = await store.get_many([path])
        config = change({} if node is None else decode_config(path, node[0]))
        if node is None and not config:
            return
        await store.ensure_path(path.rpartition("/")[0])
        await store.ensure_path(znode_paths.CONFIG_CHANGES)
        op = await _replacing_op(store, path, node, config)
        try:
            await store.multi([op, _notification(entity_type, name)])
        except (NodeExists, NoNode, BadVersion, NotEmpty) as error:
            if error.op_index != 0:
                raise
            continue
        if isinstance(op, DeleteOp):
            await _delete_empty_parents(store, entity_type, name)
        return
    raise StoreError(path, f"write conflict in each of {_ATTEMPTS_MAX} attempts")


async def _replacing_op(store: Store, path: str, node: Node | None, config: Mapping[str, str]) -> Op:
    if node is None:
        return CreateOp(path, encode_config(config))
    version = node[1].version
    if config or await store.children(path):
        return SetDataOp(path, encode_config(config), version)
    return DeleteOp(path, version)


async def _delete_empty_parents(store: Store, entity_type: str, name: str) -> None:
    """Delete the nodes above a deleted one that have neither children nor configs."""
    while "/" in name:
        name = name.rpartition("/")[0]
        path = znode_paths.config(entity_type, name)
        try:
            data, stat = await store.get(path)
            if decode_config(path, data):
                return
            await store.delete(path, stat.version)
        except (NoNode, NotEmpty, BadVersion, BadPayload):
            return  # another broker uses it


def _notification(entity_type: str, name: str) -> CreateOp:
    return CreateOp(
        f"{znode_paths.CONFIG_CHANGES}/{znode_paths.CONFIG_CHANGE_PREFIX}",
        encode_config_change(f"{entity_type}/{name}"),
        sequence=True,
    )


async def change_config(store: Store, entity_type: str, name: str, config: Mapping[str, str]) -> None:
    """Replace all configs of an entity and notify the brokers."""
    await store.ensure_path(f"{znode_paths.CONFIG}/{entity_type}")
    await store.ensure_path(znode_paths.CONFIG_CHANGES)
    await write_with_config(store, entity_type, name, config, [_notification(entity_type, name)])


async def write_with_config(
    store: Store, entity_type: str, name: str, config: Mapping[str, str], other_ops: list[Op]
) -> None:
    """Set or create an entity's config node, together with more operations, as one write.

    Errors of ``more`` are raised; a conflict on the config node itself is retried.
    """
    path, data = znode_paths.config(entity_type, name), encode_config(config)
    for _ in range(_ATTEMPTS_MAX):
        stat = await store.exists(path)
        op = CreateOp(path, data) if stat is None else SetDataOp(path, data, stat.version)
        try:
            await store.multi([op, *other_ops])
        except (NodeExists, NoNode, BadVersion) as error:
            # The first operation is on the config node. A missing parent is not a conflict.
            if error.op_index != 0 or (isinstance(error, NoNode) and isinstance(op, CreateOp)):
                raise
            continue
        return
    raise StoreError(path, f"write conflict in each of {_ATTEMPTS_MAX} attempts")


async def watch_config_changes(store: Store, watcher: Watcher | None = None) -> list[ConfigChange]:
    """Return the notifications, oldest first; the watcher fires once when one is added or removed."""
    root = znode_paths.CONFIG_CHANGES
    try:
        names = await (store.children(root) if watcher is None else store.watch_children(root, watcher))
    except NoNode:
        return []
    names = sorted(name for name in names if name.startswith(znode_paths.CONFIG_CHANGE_PREFIX))
    nodes = await store.get_many(f"{root}/{name}" for name in names)
    return [
        ConfigChange(name, _entity_path(f"{root}/{name}", node[0]))
        for name, node in zip(names, nodes, strict=True)
        if node is not None
    ]


def _entity_path(path: str, data: bytes) -> str | None:
    try:
        return decode_config_change(path, data)
    except BadPayload:
        return None


async def delete_expired_config_changes(store: Store, now_ms: int, kept_ms: int = CHANGE_KEPT_MS) -> int:
    """Delete notifications older than ``kept_ms``; return their number."""
    root, count = znode_paths.CONFIG_CHANGES, 0
    for change in await watch_config_changes(store):
        path = f"{root}/{change.name}"
        stat = await store.exists(path)
        if stat is not None and now_ms - stat.ctime_ms > kept_ms:
            try:
                await store.delete(path)
            except NoNode:
                continue  # another broker deleted it
            count += 1
    return count
