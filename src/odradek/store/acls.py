"""ACLs in the store, and the notifications of their changes.

A pattern with entries has one node. A change of it and the notification are one write, conditional on the
node's version: brokers that change the same pattern at the same time do not lose each other's entries. The
node of a pattern without entries is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from odradek.model.acl_enums import AclPermissionType, PatternType
from odradek.model.acl_operations import AclOperation
from odradek.security.acls.bindings import ANY_USER, AccessControlEntry, ResourcePattern
from odradek.store.layout import acl_znodes, znode_paths
from odradek.store.layout.acl_znodes import PATTERN_TYPES, RESOURCE_TYPES
from odradek.store.port import (
    BadPayload,
    BadVersion,
    CreateOp,
    DeleteOp,
    Node,
    NodeExists,
    NoNode,
    Op,
    SetDataOp,
    Store,
    StoreError,
    Watcher,
)
from odradek.telemetry import events

CHANGE_KEPT_MS: Final = 15 * 60 * 1000
UPDATE_ATTEMPTS_MAX: Final = 10
READ_BATCH: Final = 1_000
"""Nodes read at once: a cluster may have very many."""

Entries = frozenset[AccessControlEntry]

log = events.logger("acls")


class VersionedAcls(NamedTuple):
    """The entries of a pattern, and the version of its node; None if there is no node."""

    entries: Entries
    version: int | None


class AclChange(NamedTuple):
    """A notification: its node's name, and the pattern; None if it cannot be decoded."""

    name: str
    pattern: ResourcePattern | None


NO_ACLS: Final = VersionedAcls(frozenset(), None)
DENIES_ALL: Final = VersionedAcls(
    frozenset({AccessControlEntry(ANY_USER, AclOperation.ALL, AclPermissionType.DENY)}), None
)
"""Stands for a node that cannot be decoded: it may have denied what would be allowed without it."""


async def ensure_acl_paths(store: Store) -> None:
    """Create the fixed nodes, as the first broker with an authorizer does."""
    for pattern_type in PATTERN_TYPES:
        for resource_type in RESOURCE_TYPES:
            await store.ensure_path(acl_znodes.type_path(pattern_type, resource_type))
        await store.ensure_path(acl_znodes.changes_path(pattern_type))


async def read_all_acls(store: Store) -> dict[ResourcePattern, VersionedAcls]:
    """Return the entries of all patterns; where a node cannot be decoded, ``DENIES_ALL``."""
    patterns: list[ResourcePattern] = []
    for pattern_type in PATTERN_TYPES:
        root = acl_znodes.root_path(pattern_type)
        for type_name in await _children(store, root):
            resource_type = acl_znodes.parse_resource_type(type_name)
            if resource_type is None:
                log.warning("resource_type_ignored", path=f"{root}/{type_name}")
                continue
            names = await _children(store, f"{root}/{type_name}")
            patterns += [ResourcePattern(resource_type, name, pattern_type) for name in names]
    acls: dict[ResourcePattern, VersionedAcls] = {}
    for start in range(0, len(patterns), READ_BATCH):
        batch = patterns[start : start + READ_BATCH]
        paths = list(map(acl_znodes.path_of, batch))
        for pattern, path, node in zip(batch, paths, await store.get_many(paths), strict=True):
            if node is not None:
                acls[pattern] = _decode_or_deny(path, node)
    return acls


async def read_acls_or_deny(store: Store, pattern: ResourcePattern) -> VersionedAcls:
    """Return the entries of a pattern; for a node that cannot be decoded one that denies everything."""
    path = acl_znodes.path_of(pattern)
    try:
        return _decode_or_deny(path, await store.get(path))
    except NoNode:
        return NO_ACLS


def _decode_or_deny(path: str, node: Node) -> VersionedAcls:
    try:
        return VersionedAcls(acl_znodes.decode_acls(path, node[0]), node[1].version)
    except BadPayload as error:
        log.error("acls_not_decoded", reason=f"{error}. All operations are denied there")
        return DENIES_ALL


async def read_acls(store: Store, pattern: ResourcePattern) -> VersionedAcls:
    path = acl_znodes.path_of(pattern)
    try:
        data, stat = await store.get(path)
    except NoNode:
        return NO_ACLS
    return VersionedAcls(acl_znodes.decode_acls(path, data), stat.version)


async def update_acls(
    store: Store,
    pattern: ResourcePattern,
    change: Callable[[Entries], Entries],
    current: VersionedAcls | None = None,
) -> VersionedAcls:
    """Change the entries of a pattern and notify the brokers; return the new entries.

    ``current`` may be out of date: the write is conditional, and repeated with what is in the store then. An
    unchanged node is written too, because only that shows that it is the current one.
    """
    if current is None:
        current = await read_acls(store, pattern)
    for _ in range(UPDATE_ATTEMPTS_MAX):
        entries = change(current.entries)
        write = _write_of(pattern, entries, current.version)
        if write is None:
            if (current := await read_acls(store, pattern)).version is None:
                return NO_ACLS
            continue
        notification = [] if entries == current.entries else [_notification(pattern)]
        try:
            await store.multi([write, *notification])
        except (NodeExists, NoNode, BadVersion) as error:
            # The first operation is on the pattern's node. A missing parent is not a conflict.
            if error.op_index != 0 or (isinstance(error, NoNode) and isinstance(write, CreateOp)):
                raise
            current = await read_acls(store, pattern)
            continue
        if not entries:
            return NO_ACLS
        return VersionedAcls(entries, 0 if current.version is None else current.version + 1)
    raise StoreError(acl_znodes.path_of(pattern), f"write conflict in each of {UPDATE_ATTEMPTS_MAX} attempts")


def _write_of(pattern: ResourcePattern, entries: Entries, version: int | None) -> Op | None:
    path = acl_znodes.path_of(pattern)
    if version is None:
        return CreateOp(path, acl_znodes.encode_acls(entries)) if entries else None
    return SetDataOp(path, acl_znodes.encode_acls(entries), version) if entries else DeleteOp(path, version)


def _notification(pattern: ResourcePattern) -> Op:
    path = f"{acl_znodes.changes_path(pattern.pattern_type)}/{znode_paths.ACL_CHANGE_PREFIX}"
    return CreateOp(path, acl_znodes.encode_change(pattern), sequence=True)


async def watch_acl_changes(
    store: Store, pattern_type: PatternType, watcher: Watcher | None = None
) -> list[AclChange]:
    """Return the notifications of patterns of a type, oldest first.

    The watcher fires once when one is added or removed.
    """
    root = acl_znodes.changes_path(pattern_type)
    try:
        names = await (store.children(root) if watcher is None else store.watch_children(root, watcher))
    except NoNode:
        return []
    names = sorted(name for name in names if name.startswith(znode_paths.ACL_CHANGE_PREFIX))
    nodes = await store.get_many(f"{root}/{name}" for name in names)
    return [
        AclChange(name, _pattern_of(f"{root}/{name}", node[0], pattern_type))
        for name, node in zip(names, nodes, strict=True)
        if node is not None
    ]


def _pattern_of(path: str, data: bytes, pattern_type: PatternType) -> ResourcePattern | None:
    try:
        return acl_znodes.decode_change(path, data, pattern_type)
    except BadPayload as error:
        log.error("acl_change_not_decoded", reason=str(error))
        return None


async def delete_expired_acl_changes(store: Store, now_ms: int, kept_ms: int = CHANGE_KEPT_MS) -> int:
    """Delete notifications older than ``kept_ms``; return their number."""
    count = 0
    for pattern_type in PATTERN_TYPES:
        root = acl_znodes.changes_path(pattern_type)
        for name in await _children(store, root):
            stat = await store.exists(f"{root}/{name}")
            if stat is not None and now_ms - stat.ctime_ms > kept_ms:
                try:
                    await store.delete(f"{root}/{name}")
                except NoNode:
                    continue  # another broker deleted it
                count += 1
    return count


async def _children(store: Store, path: str) -> Sequence[str]:
    try:
        return await store.children(path)
    except NoNode:
        return ()
