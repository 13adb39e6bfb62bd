"""Dynamic settings of topics, brokers, clients, users and addresses, and the notes that tell of a change.

A change and its note under ``/config/changes`` are one write, so no broker can miss one. Brokers watch that
node's children, read the notes they have not seen, and read the settings named there anew. Notes are
forgotten after a while; who was away longer reads all settings at its start anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from odradek.store import znode_paths
from odradek.store.port import (
    BadPayload,
    BadVersion,
    Create,
    NodeExists,
    NoNode,
    Op,
    SetData,
    Store,
    StoreError,
    Watcher,
)
from odradek.store.znodes import decode_config, decode_config_change, encode_config, encode_config_change

CHANGE_KEPT_MS: Final = 15 * 60 * 1000
_ATTEMPTS_MAX: Final = 10


class ConfigChange(NamedTuple):
    """A note: its node's name, and the entity relative to ``/config``, such as ``topics/orders``.

    A note that cannot be read names none; it must not keep the others from being read.
    """

    name: str
    entity_path: str | None


async def read_config(store: Store, entity_type: str, name: str) -> dict[str, str]:
    """The settings of one entity; none if it has no node."""
    path = znode_paths.config(entity_type, name)
    try:
        data, _ = await store.get(path)
    except NoNode:
        return {}
    return decode_config(path, data)


async def read_configs(store: Store, entity_type: str) -> dict[str, dict[str, str]]:
    """The settings of all entities of a type, by name."""
    try:
        names = await store.children(f"{znode_paths.CONFIG}/{entity_type}")
    except NoNode:
        return {}
    nodes = await store.get_many(znode_paths.config(entity_type, name) for name in names)
    return {
        name: decode_config(znode_paths.config(entity_type, name), node[0])
        for name, node in zip(names, nodes, strict=True)
        if node is not None
    }


async def change_config(store: Store, entity_type: str, name: str, config: Mapping[str, str]) -> None:
    """Replace all settings of an entity and tell the brokers."""
    await store.ensure_path(f"{znode_paths.CONFIG}/{entity_type}")
    await store.ensure_path(znode_paths.CONFIG_CHANGES)
    note = Create(
        f"{znode_paths.CONFIG_CHANGES}/{znode_paths.CONFIG_CHANGE_PREFIX}",
        encode_config_change(f"{entity_type}/{name}"),
        sequence=True,
    )
    await write_with_config(store, entity_type, name, config, [note])


async def write_with_config(
    store: Store, entity_type: str, name: str, config: Mapping[str, str], more: list[Op]
) -> None:
    """Set or create an entity's settings, together with more operations, as one write.

    An error of one of ``more`` is raised as it is; a race about the settings' own node is tried again.
    """
    path, data = znode_paths.config(entity_type, name), encode_config(config)
    for _ in range(_ATTEMPTS_MAX):
        stat = await store.exists(path)
        op = Create(path, data) if stat is None else SetData(path, data, stat.version)
        try:
            await store.multi([op, *more])
        except (NodeExists, NoNode, BadVersion) as refused:
            # The first operation names the settings' node. A missing parent is not a race.
            if refused.op_index != 0 or (isinstance(refused, NoNode) and isinstance(op, Create)):
                raise
            continue
        return
    raise StoreError(path, f"changed under each of {_ATTEMPTS_MAX} attempts to write it")


async def watch_config_changes(store: Store, watcher: Watcher | None = None) -> list[ConfigChange]:
    """The notes there are, oldest first; with a watcher, one event when one is added or removed."""
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
    """Delete notes older than ``kept_ms``; give how many."""
    root, count = znode_paths.CONFIG_CHANGES, 0
    for change in await watch_config_changes(store):
        path = f"{root}/{change.name}"
        stat = await store.exists(path)
        if stat is not None and now_ms - stat.ctime_ms > kept_ms:
            try:
                await store.delete(path)
            except NoNode:
                continue  # another broker forgets too
            count += 1
    return count
