"""Dynamic configs: read from the store, and applied on change notifications.

All configs are read at start; after that, notifications in the store name the entity that changed.
"""

from __future__ import annotations

import asyncio
from typing import Final

from odradek.broker.network.socket_server import SocketServer
from odradek.broker.topics.admin import ALL_BROKERS, AdminManager
from odradek.config.dynamic.broker_config import DynamicBrokerConfig
from odradek.model.errors import BrokerError
from odradek.ports.clock import Clock
from odradek.replication.replica_manager import ReplicaManager
from odradek.store import znode_paths
from odradek.store.configs import (
    delete_expired_config_changes,
    read_config,
    read_configs,
    watch_config_changes,
)
from odradek.store.port import Store, StoreError, WatchedEvent
from odradek.telemetry import events

TOPICS: Final = "topics"
BROKERS: Final = "brokers"

log = events.logger("config")


class DynamicConfigManager:
    def __init__(
        self,
        store: Store,
        config: DynamicBrokerConfig,
        admin_manager: AdminManager,
        broker_id: int,
        clock: Clock,
    ) -> None:
        self._store = store
        self._config = config
        self._admin_manager = admin_manager
        self._broker_id = broker_id
        self._clock = clock
        self._replica_manager: ReplicaManager | None = None
        self._socket_server: SocketServer | None = None
        self._last_seen = ""
        self._tasks: set[asyncio.Task[None]] = set()

    async def load(self) -> None:
        """Read all configs, and watch for changes from now on."""
        await self._store.ensure_path(znode_paths.CONFIG_CHANGES)
        changes = await watch_config_changes(self._store, self._on_notification)
        self._last_seen = changes[-1].name if changes else ""
        for topic, overrides in (await read_configs(self._store, TOPICS)).items():
            self._admin_manager.put_topic_overrides(topic, overrides)
        brokers = await read_configs(self._store, BROKERS)
        self._warn(self._config.set_cluster_overrides(brokers.get(ALL_BROKERS, {})))
        self._warn(self._config.set_broker_overrides(brokers.get(str(self._broker_id), {})))

    def attach(self, replica_manager: ReplicaManager, socket_server: SocketServer) -> None:
        """Also apply changes to these replicas and listeners."""
        self._replica_manager = replica_manager
        self._socket_server = socket_server

    async def delete_expired(self) -> None:
        await delete_expired_config_changes(self._store, self._clock.wall_ms())

    def _on_notification(self, event: WatchedEvent) -> None:
        task = asyncio.get_running_loop().create_task(self._process_notifications())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _process_notifications(self) -> None:
        try:
            for change in await watch_config_changes(self._store, self._on_notification):
                if change.name > self._last_seen:
                    self._last_seen = change.name
                    if change.entity_path is not None:
                        await self._apply(change.entity_path)
        except StoreError as error:
            log.error("config_change_failed", reason=str(error))

    async def _apply(self, entity_path: str) -> None:
        kind, _, name = entity_path.partition("/")
        if kind == TOPICS:
            self._admin_manager.put_topic_overrides(name, await read_config(self._store, kind, name))
            self._reconfigure([name])
        elif kind == BROKERS and name == ALL_BROKERS:
            self._warn(self._config.set_cluster_overrides(await read_config(self._store, kind, name)))
            self._reconfigure(None)
        elif kind == BROKERS and name == str(self._broker_id):
            self._warn(self._config.set_broker_overrides(await read_config(self._store, kind, name)))
            self._reconfigure(None)
            await self._apply_listeners()

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
