"""Delegation tokens in the store: conditional writes with notifications, and what cannot be decoded."""

from __future__ import annotations

import asyncio
import json

import pytest

from odradek.security.principal import user
from odradek.security.tokens.token_information import TokenInformation
from odradek.security.tokens.token_nodes import encode_token
from odradek.store import tokens
from odradek.store.embedded.ensemble import EmbeddedEnsemble, EmbeddedStore
from odradek.store.layout import znode_paths
from odradek.store.port import BadPayload, BadVersion, NodeExists, NoNode, WatchedEvent
from odradek.store.tokens import (
    TokenChange,
    VersionedToken,
    create_token,
    delete_expired_token_changes,
    delete_token,
    ensure_token_paths,
    read_all_tokens,
    read_token,
    update_token,
    watch_token_changes,
)

TOKEN = TokenInformation("first", user("alice"), user("bob"), (user("carol"),), 1, 30, 20)
LATER = TOKEN._replace(expiry_timestamp=25)
CHANGES = znode_paths.DELEGATION_TOKEN_CHANGES
CHANGE_PREFIX = f"{CHANGES}/{znode_paths.DELEGATION_TOKEN_CHANGE_PREFIX}"


async def connect(ensemble: EmbeddedEnsemble) -> EmbeddedStore:
    store = ensemble.connect()
    await ensure_token_paths(store)
    return store


async def changed_tokens(store: EmbeddedStore) -> list[str | None]:
    return [change.token_id for change in await watch_token_changes(store)]


def test_every_write_notifies(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = await connect(ensemble)
        created = await create_token(store, TOKEN)
        assert created == VersionedToken(TOKEN, 0) == await read_token(store, "first")
        updated = await update_token(store, LATER, created.version)
        assert updated == VersionedToken(LATER, 1) == await read_token(store, "first")
        other = await create_token(store, TOKEN._replace(token_id="second"))
        assert sorted(await read_all_tokens(store)) == [updated, other]
        await delete_token(store, "first", updated.version)
        assert await read_token(store, "first") is None
        assert await read_all_tokens(store) == [other]
        assert await changed_tokens(store) == ["first", "first", "second", "first"]

    run_on_store(scenario)


def test_nodes_are_those_of_kafka(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = await connect(ensemble)
        await create_token(store, TOKEN)
        data, _ = await store.get("/delegation_token/tokens/first")
        assert json.loads(data)["tokenId"] == "first"
        assert await store.children("/delegation_token/token_changes") == ["token_change_0000000000"]
        assert (await store.get("/delegation_token/token_changes/token_change_0000000000"))[0] == b"first"

    run_on_store(scenario)


def test_conflicts_change_nothing_and_notify_nobody(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = await connect(ensemble)
        await create_token(store, TOKEN)
        with pytest.raises(NodeExists) as exists:
            await create_token(store, LATER)
        for version in (1, 7):
            with pytest.raises(BadVersion) as conflict:
                await update_token(store, LATER, version)
            assert conflict.value.op_index == exists.value.op_index == 0
            with pytest.raises(BadVersion):
                await delete_token(store, "first", version)
        assert await read_token(store, "first") == VersionedToken(TOKEN, 0)
        for write in (
            update_token(store, TOKEN._replace(token_id="gone"), 0),
            delete_token(store, "gone", 0),
        ):
            with pytest.raises(NoNode) as missing:
                await write
            assert missing.value.op_index == 0
        assert await changed_tokens(store) == ["first"]

    run_on_store(scenario)


@pytest.mark.parametrize("data", [b"", b"?", b"{}", encode_token(TOKEN), encode_token(TOKEN)[:-1]])
def test_nodes_that_cannot_be_decoded(run_on_store, data: bytes) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = await connect(ensemble)
        await store.create(znode_paths.delegation_token("other"), data)
        with pytest.raises(BadPayload, match="/delegation_token/tokens/other"):
            await read_token(store, "other")
        created = await create_token(store, TOKEN)
        assert await read_all_tokens(store) == [created]

    run_on_store(scenario)


def test_store_without_tokens(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        assert await read_all_tokens(store) == []
        assert await read_token(store, "first") is None
        assert await delete_expired_token_changes(store, 1 << 50) == 0

    run_on_store(scenario)


def test_many_tokens_are_read_in_batches(run_on_store, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = await connect(ensemble)
        ids = [f"token-{number}" for number in range(7)]
        for token_id in ids:
            await create_token(store, TOKEN._replace(token_id=token_id))
        assert sorted(token.information.token_id for token in await read_all_tokens(store)) == ids

    monkeypatch.setattr(tokens, "READ_BATCH", 3)
    run_on_store(scenario)


def test_changes_are_watched_from_a_name_on(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = await connect(ensemble)
        await create_token(store, TOKEN)
        fired: list[WatchedEvent] = []
        first = await watch_token_changes(store, watcher=fired.append)
        assert first == [TokenChange("token_change_0000000000", "first")]
        await store.create(CHANGE_PREFIX, b"\xff", sequence=True)
        await store.create(f"{CHANGES}/something-else", b"x")
        await create_token(store, TOKEN._replace(token_id="second"))
        await asyncio.sleep(0)
        assert len(fired) == 1
        later = await watch_token_changes(store, first[0].name)
        assert later == [
            TokenChange("token_change_0000000001", None),
            # The number counts all children.
            TokenChange("token_change_0000000003", "second"),
        ]

    run_on_store(scenario)


def test_old_notifications_are_deleted(run_on_store, clock) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = await connect(ensemble)
        created = await create_token(store, TOKEN)
        clock.now_ms += 1000
        await update_token(store, LATER, created.version)
        assert await delete_expired_token_changes(store, clock.now_ms, 1000) == 0
        assert await delete_expired_token_changes(store, clock.now_ms + 1, 1000) == 1
        assert [change.name for change in await watch_token_changes(store)] == ["token_change_0000000001"]
        assert await delete_expired_token_changes(store, clock.now_ms + tokens.CHANGE_KEPT_MS) == 0
        assert await delete_expired_token_changes(store, clock.now_ms + tokens.CHANGE_KEPT_MS + 1) == 1
        assert await read_token(store, "first") == VersionedToken(LATER, 1)

    run_on_store(scenario)
