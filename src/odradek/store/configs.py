"""Dynamic configs of topics, brokers, clients, users and IPs, and the notifications of their changes.

A change and its notification under ``/config/changes`` are one write, so no broker can miss it. Brokers
watch that node's children, and reload the configs named by notifications they have not seen. Notifications
are deleted after a while; a broker that was down longer reads all configs at startup anyway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    NodeExists,
    NoNode,
    Op,
    SetDataOp,
    Store,
    StoreError,
    Watcher,
)

CHANGE_KEPT_MS: Final = 15 * 60 * 1000
_ATTEMPTS_MAX: Final = 10


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


async def change_config(store: Store, entity_type: str, name: str, config: Mapping[str, str]) -> None:
    """Replace all configs of an entity and notify the brokers."""
    await store.ensure_path(f"{znode_paths.CONFIG}/{entity_type}")
    await store.ensure_path(znode_paths.CONFIG_CHANGES)
    notification = CreateOp(
        f"{znode_paths.CONFIG_CHANGES}/{znode_paths.CONFIG_CHANGE_PREFIX}",
        encode_config_change(f"{entity_type}/{name}"),
        sequence=True,
    )
    await write_with_config(store, entity_type, name, config, [notification])


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
