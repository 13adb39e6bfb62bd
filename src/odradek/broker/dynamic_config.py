"""Dynamic configs: read from the store, and applied on change notifications.

All configs are read at start and under each new store session; after that, notifications in the store name
the entity that changed, whoever changed it. Notifications are processed one pass at a time, in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from odradek.broker.client_configs import CLIENT_ENTITY_TYPES, ClientConfigs
from odradek.broker.network.socket_server import SocketServer
from odradek.broker.topics.admin import ALL_BROKERS, AdminManager
from odradek.config import topic
from odradek.config.broker import UNCLEAN_LEADER_ELECTION_ENABLE
from odradek.config.definition import Settings
from odradek.config.dynamic.broker_config import DynamicBrokerConfig
from odradek.model.errors import BrokerError
from odradek.ports.clock import Clock
from odradek.replication.replica_manager import ReplicaManager
from odradek.store.configs import (
    delete_expired_config_changes,
    read_config,
    read_configs,
    watch_config_changes,
)
from odradek.store.layout import znode_paths
from odradek.store.port import BadPayload, Store, StoreError, StoreProvider, Unavailable, WatchedEvent
from odradek.telemetry import events

TOPICS: Final = "topics"
BROKERS: Final = "brokers"
RETRY_MS: Final = 1_000
"""Wait before notifications are read again while the store is unavailable."""

log = events.logger("config")


class DynamicConfigManager:
    def __init__(
        self,
        stores: StoreProvider,
        config: DynamicBrokerConfig,
        admin_manager: AdminManager,
        client_configs: ClientConfigs,
        broker_id: int,
        clock: Clock,
    ) -> None:
        self._stores = stores
        self._config = config
        self._admin_manager = admin_manager
        self._client_configs = client_configs
        self._broker_id = broker_id
        self._clock = clock
        self._replica_manager: ReplicaManager | None = None
        self._socket_server: SocketServer | None = None
        self.on_unclean_election_enabled: Callable[[str | None], None] = lambda topic: None
        """Called when a topic, or with None the default, may elect leaders outside the ISR from now on."""
        self._is_unclean_default = config.broker[UNCLEAN_LEADER_ELECTION_ENABLE]
        config.observers.append(self._observe_unclean_default)
        self._last_seen = ""
        self._has_changed = False
        self._task: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    async def load(self) -> None:
        """Read all configs, and watch for changes from now on."""
        async with self._lock:
            await self._load(self._stores.store)

    async def reload(self, store: Store) -> None:
        """Read all configs again under a new session, and apply them."""
        async with self._lock:
            await self._load(store)
            self._reconfigure(None)
            await self._apply_listeners()

    def attach(self, replica_manager: ReplicaManager, socket_server: SocketServer) -> None:
        """Also apply changes to these replicas and listeners."""
        self._replica_manager = replica_manager
        self._socket_server = socket_server

    async def load_topics(self, topics: Collection[str]) -> None:
        """Read the configs of topics that another broker may have created."""
        async with self._lock:
            await asyncio.gather(*map(self._load_topic, topics))

    async def _load_topic(self, topic: str) -> None:
        try:
            self._admin_manager.put_topic_overrides(topic, await self._read(TOPICS, topic))
        except StoreError as error:
            # The topic keeps what is known of it; a new session reads everything again.
            log.error("topic_config_not_read", topic=topic, reason=str(error))

    async def delete_expired(self) -> None:
        await delete_expired_config_changes(self._stores.store, self._clock.wall_ms())

    async def _load(self, store: Store) -> None:
        await store.ensure_path(znode_paths.CONFIG_CHANGES)
        # The watch before the configs: what changes meanwhile is read again.
        changes = await watch_config_changes(store, self._on_notification)
        self._last_seen = changes[-1].name if changes else ""
        self._admin_manager.replace_topic_overrides(await read_configs(store, TOPICS))
        await self._client_configs.load(store)
        brokers = await read_configs(store, BROKERS)
        self._warn(self._config.set_cluster_overrides(brokers.get(ALL_BROKERS, {})))
        self._warn(self._config.set_broker_overrides(brokers.get(str(self._broker_id), {})))

    def _on_notification(self, event: WatchedEvent) -> None:
        self._has_changed = True
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._process_notifications())

    async def _process_notifications(self) -> None:
        try:
            while self._has_changed:
                self._has_changed = False
                try:
                    async with self._lock:
                        await self._apply_new()
                except Unavailable as error:
                    log.error("config_change_failed", reason=str(error))
                    await self._clock.sleep_ms(RETRY_MS)
                    self._has_changed = True
        except StoreError as error:
            # A new session reads everything again.
            log.error("config_change_failed", reason=str(error))
        finally:
            self._task = None

    async def _apply_new(self) -> None:
        for change in await watch_config_changes(self._stores.store, self._on_notification):
            if change.name > self._last_seen:
                if change.entity_path is not None:
                    try:
                        await self._apply(change.entity_path)
                    except BadPayload as error:
                        log.error("config_change_failed", reason=str(error))
                self._last_seen = change.name

    async def _apply(self, entity_path: str) -> None:
        kind, _, name = entity_path.partition("/")
        if kind == TOPICS:
            overrides = await self._read(kind, name)
            self._admin_manager.put_topic_overrides(name, overrides)
            self._reconfigure([name])
            unclean = topic.UNCLEAN_LEADER_ELECTION_ENABLE
            if unclean.name in overrides and self._config.topic_settings(overrides)[unclean]:
                self.on_unclean_election_enabled(name)
        elif kind in CLIENT_ENTITY_TYPES:
            self._client_configs.update(kind, name, await self._read(kind, name))
        elif kind == BROKERS and name == ALL_BROKERS:
            self._warn(self._config.set_cluster_overrides(await self._read(kind, name)))
            self._reconfigure(None)
        elif kind == BROKERS and name == str(self._broker_id):
            self._warn(self._config.set_broker_overrides(await self._read(kind, name)))
            self._reconfigure(None)
            await self._apply_listeners()

    def _observe_unclean_default(self, values: Settings) -> None:
        before, self._is_unclean_default = self._is_unclean_default, values[UNCLEAN_LEADER_ELECTION_ENABLE]
        if self._is_unclean_default and not before:
            self.on_unclean_election_enabled(None)

    async def _read(self, kind: str, name: str) -> dict[str, str]:
        return await read_config(self._stores.store, kind, name)

    async def _apply_listeners(self) -> None:
        """Apply the configured listeners. A no-op for changes made through this broker."""
        if self._socket_server is not None:
            try:
                async with self._socket_server.reconfigure(self._config.broker):
                    pass
            except BrokerError as error:
                log.error("listeners_not_changed", reason=error.message)

    def _reconfigure(self, topics: list[str] | None) -> None:
        if self._replica_manager is not None:
            self._replica_manager.reconfigure(topics)

    def _warn(self, problems: list[str]) -> None:
        for problem in problems:
            log.warning("setting_ignored", problem=problem)
