"""Finalized features: creation, enabling, versions of the node, watches."""

from __future__ import annotations

import asyncio

import pytest

from odradek.store.embedded.ensemble import EmbeddedEnsemble
from odradek.store.features import enable_features, read_features, watch_features
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import FinalizedFeatures, encode_features
from odradek.store.port import WatchedEvent


@pytest.mark.parametrize("node_version", [1, 2])
def test_features_are_created_empty_and_enabled(run_on_store, node_version: int) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        assert await read_features(store) is None
        await enable_features(store, node_version)
        data, stat = await store.get(znode_paths.FEATURE)
        assert data == b'{"features":{},"version":%d,"status":1}' % node_version
        await enable_features(store, node_version)
        assert (await store.get(znode_paths.FEATURE))[1].version == stat.version == 0

    run_on_store(scenario)


def test_version_of_the_node_follows_the_protocol(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await enable_features(store, 1)
        await enable_features(store, 2)
        data, stat = await store.get(znode_paths.FEATURE)
        assert (data, stat.version) == (b'{"features":{},"version":2,"status":1}', 1)

    run_on_store(scenario)


def test_finalized_features_are_kept_unless_disabled(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await store.create(znode_paths.FEATURE, encode_features(FinalizedFeatures(True, {"f": 3})))
        await enable_features(store, 2)
        stored = await read_features(store)
        assert stored is not None
        assert (stored.features.versions, stored.epoch) == ({"f": 3}, 0)
        await store.set(znode_paths.FEATURE, encode_features(FinalizedFeatures(False, {"f": 3})))
        await enable_features(store, 2)
        stored = await read_features(store)
        assert stored is not None
        assert stored.features == FinalizedFeatures(True, {})

    run_on_store(scenario)


def test_watcher_sees_creation_and_change(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store, seen = ensemble.connect(), list[WatchedEvent]()
        assert await watch_features(store, seen.append) is None
        await enable_features(store, 2)
        await asyncio.sleep(0.01)
        assert len(seen) == 1

    run_on_store(scenario)
