"""Topics whose deletion this broker has missed: they leave its metadata cache.

The controller announces a deletion once, to the brokers that are registered then. A broker misses it if its
session has expired, or if the controller fails before the broker has got it; the next UpdateMetadata requests
name the topics that exist, but do not say that these are all. Kafka's brokers keep such a topic until they
are restarted.

So at the first UpdateMetadata request of a controller, or for a new broker epoch, topics that it does not
name are looked up in the store. What this controller deletes from then on, it announces to this broker,
except deletions that it has begun already: those are looked up again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from odradek.cluster.metadata_cache import MetadataCache, TopicMetadata
from odradek.ports.clock import Clock
from odradek.replication.control_requests import MetadataChange, MetadataSource
from odradek.replication.state_changes import StateChanges
from odradek.store.port import StoreError, StoreProvider, WatchedEvent
from odradek.store.topics import catch_up, read_marked_for_deletion, read_topic_names
from odradek.telemetry import events

RETRY_MS: Final = 1_000

log = events.logger("metadata")


class MissedDeletions:
    """A metadata observer that removes deleted topics."""

    def __init__(
        self, stores: StoreProvider, metadata_cache: MetadataCache, state_changes: StateChanges, clock: Clock
    ) -> None:
        self._stores = stores
        self._metadata_cache = metadata_cache
        self._state_changes = state_changes
        self._clock = clock
        self._source: MetadataSource | None = None
        self._unconfirmed: Mapping[str, TopicMetadata] = {}
        """Topics that may have been deleted, as they were in the cache."""
        self._is_pending = False
        self._task: asyncio.Task[None] | None = None

    def on_metadata_change(self, change: MetadataChange) -> None:
        if change.source is None or change.source == self._source:
            return
        self._source = change.source
        topics = self._metadata_cache.topics
        self._unconfirmed = {name: topics[name] for name in topics.keys() - set(change.topics)}
        self._look_up()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _on_marks_changed(self, event: WatchedEvent) -> None:
        self._look_up()

    def _look_up(self) -> None:
        self._is_pending = bool(self._unconfirmed)
        if self._is_pending and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._look_up_until_done())

    async def _look_up_until_done(self) -> None:
        try:
            while self._is_pending:
                self._is_pending = False
                try:
                    await self._remove_deleted(self._unconfirmed)
                except StoreError as error:
                    log.warning("topic_lookup_retry", reason=str(error))
                    await self._clock.sleep_ms(RETRY_MS)
                    self._is_pending = True
        finally:
            self._task = None

    async def _remove_deleted(self, unconfirmed: Mapping[str, TopicMetadata]) -> None:
        store = self._stores.store
        await catch_up(store)
        # The marks first: a topic that is not marked yet is not deleted without an announcement.
        marked = await read_marked_for_deletion(store)
        if not marked.isdisjoint(unconfirmed):
            marked = await read_marked_for_deletion(store, self._on_marks_changed)
        existing = await read_topic_names(store)
        deleted = [topic for name, topic in unconfirmed.items() if name not in existing]
        self._state_changes.forget_topics(deleted)
        if self._unconfirmed is unconfirmed:
            self._unconfirmed = {
                name: topic for name, topic in unconfirmed.items() if name in marked & existing
            }
