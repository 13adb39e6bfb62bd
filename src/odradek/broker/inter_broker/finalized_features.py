"""Finalized features of the cluster, as ApiVersions responses name them: read from ``/feature``, watched."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from odradek.store.features import watch_features
from odradek.store.port import BadPayload, Store, StoreError, StoreProvider, WatchedEvent
from odradek.telemetry import events

UNKNOWN_EPOCH: Final = -1
"""Epoch while there is no node, or features are disabled."""

log = events.logger("features")


class FinalizedFeatureListener:
    def __init__(self, stores: StoreProvider) -> None:
        self.epoch = UNKNOWN_EPOCH
        self.versions: Mapping[str, int] = {}
        """Finalized max version level by feature."""
        self._stores = stores
        self._tasks: set[asyncio.Task[None]] = set()

    async def load(self, store: Store) -> None:
        """Read the features, and watch for changes from now on."""
        try:
            stored = await watch_features(store, self._on_changed)
        except BadPayload as error:
            log.error("features_not_read", reason=str(error))
            return
        if stored is None or not stored.features.is_enabled:
            self.epoch, self.versions = UNKNOWN_EPOCH, {}
        else:
            self.epoch, self.versions = stored.epoch, stored.features.versions

    def _on_changed(self, event: WatchedEvent) -> None:
        task = asyncio.get_running_loop().create_task(self._reload())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reload(self) -> None:
        try:
            await self.load(self._stores.store)
        except StoreError as error:
            log.error("features_not_read", reason=str(error))
