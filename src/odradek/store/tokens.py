"""Delegation tokens in the store, and the notifications of their changes.

A change of a token and the notification are one write, conditional on the node's version: a token that
another broker has removed does not come back by being renewed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from odradek.security.tokens.token_information import TokenInformation
from odradek.security.tokens.token_nodes import decode_change, decode_token, encode_change, encode_token
from odradek.store.layout import znode_paths
from odradek.store.port import BadPayload, CreateOp, DeleteOp, NoNode, Op, SetDataOp, Store, Watcher
from odradek.telemetry import events

CHANGE_KEPT_MS: Final = 15 * 60 * 1000
READ_BATCH: Final = 1_000
"""Nodes read at once: a cluster may have very many."""

log = events.logger("delegation_tokens")


class VersionedToken(NamedTuple):
    """A token, and the version of its node."""

    information: TokenInformation
    version: int


class TokenChange(NamedTuple):
    """A notification: its node's name, and the id of the token; None if it cannot be decoded."""

    name: str
    token_id: str | None


async def ensure_token_paths(store: Store) -> None:
    """Create the fixed nodes, as the first broker with delegation tokens does."""
    await store.ensure_path(znode_paths.DELEGATION_TOKENS)
    await store.ensure_path(znode_paths.DELEGATION_TOKEN_CHANGES)


async def read_all_tokens(store: Store) -> list[VersionedToken]:
    """Return all tokens. Those that cannot be decoded are left out: they authenticate nobody."""
    token_ids = await _children(store, znode_paths.DELEGATION_TOKENS)
    tokens = []
    for start in range(0, len(token_ids), READ_BATCH):
        batch = token_ids[start : start + READ_BATCH]
        nodes = await store.get_many(map(znode_paths.delegation_token, batch))
        for token_id, node in zip(batch, nodes, strict=True):
            if node is None:
                continue
            try:
                tokens.append(VersionedToken(_decode(token_id, node[0]), node[1].version))
            except BadPayload as error:
                log.error("delegation_token_not_decoded", reason=str(error))
    return tokens


async def read_token(store: Store, token_id: str) -> VersionedToken | None:
    """Return a token; None if there is none. Raises BadPayload if it cannot be decoded."""
    try:
        data, stat = await store.get(znode_paths.delegation_token(token_id))
    except NoNode:
        return None
    return VersionedToken(_decode(token_id, data), stat.version)


def _decode(token_id: str, data: bytes) -> TokenInformation:
    path = znode_paths.delegation_token(token_id)
    try:
        information = decode_token(data)
    except ValueError as error:
        raise BadPayload(path, str(error)) from None
    if information.token_id != token_id:
        raise BadPayload(path, f"tokenId must be that of the node, got {information.token_id!r}")
    return information


async def create_token(store: Store, information: TokenInformation) -> VersionedToken:
    """Write a new token. Raises NodeExists."""
    path = znode_paths.delegation_token(information.token_id)
    await _write(store, CreateOp(path, encode_token(information)), information.token_id)
    return VersionedToken(information, 0)


async def update_token(store: Store, information: TokenInformation, version: int) -> VersionedToken:
    """Replace a token. Raises BadVersion or NoNode if another broker has changed or removed it."""
    path = znode_paths.delegation_token(information.token_id)
    await _write(store, SetDataOp(path, encode_token(information), version), information.token_id)
    return VersionedToken(information, version + 1)


async def delete_token(store: Store, token_id: str, version: int) -> None:
    """Remove a token. Raises BadVersion or NoNode if another broker has changed or removed it."""
    await _write(store, DeleteOp(znode_paths.delegation_token(token_id), version), token_id)


async def _write(store: Store, write: Op, token_id: str) -> None:
    prefix = f"{znode_paths.DELEGATION_TOKEN_CHANGES}/{znode_paths.DELEGATION_TOKEN_CHANGE_PREFIX}"
    await store.multi([write, CreateOp(prefix, encode_change(token_id), sequence=True)])


async def watch_token_changes(
    store: Store, after: str = "", watcher: Watcher | None = None
) -> list[TokenChange]:
    """Return the notifications whose names come after another's, oldest first.

    The watcher fires once when a notification is added or removed.
    """
    root = znode_paths.DELEGATION_TOKEN_CHANGES
    names = await (store.children(root) if watcher is None else store.watch_children(root, watcher))
    names = sorted(
        name for name in names if name.startswith(znode_paths.DELEGATION_TOKEN_CHANGE_PREFIX) and name > after
    )
    nodes = await store.get_many(f"{root}/{name}" for name in names)
    return [
        TokenChange(name, _token_id_of(f"{root}/{name}", node[0]))
        for name, node in zip(names, nodes, strict=True)
        if node is not None
    ]


def _token_id_of(path: str, data: bytes) -> str | None:
    try:
        return decode_change(data)
    except ValueError as error:
        log.error("token_change_not_decoded", path=path, reason=str(error))
        return None


async def delete_expired_token_changes(store: Store, now_ms: int, kept_ms: int = CHANGE_KEPT_MS) -> int:
    """Delete notifications older than ``kept_ms``; return their number."""
    root, count = znode_paths.DELEGATION_TOKEN_CHANGES, 0
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
