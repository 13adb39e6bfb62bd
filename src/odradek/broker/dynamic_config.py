"""Dynamic settings on their way from the store to whatever goes by them.

All settings are read at start; after that the store's notes tell which changed. Whoever misses notes reads
everything anew.
"""

from __future__ import annotations

import asyncio
from typing import Final

from odradek.broker.network.socket_server import Listening
from odradek.broker.topics.admin import ALL_BROKERS, Topics
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


class ConfigChanges:
    def __init__(
        self, store: Store, config: DynamicBrokerConfig, topics: Topics, broker_id: int, clock: Clock
    ) -> None:
        self._store = store
        self._config = config
        self._topics = topics
        self._broker_id = broker_id
        self._clock = clock
        self._replicas: ReplicaManager | None = None
        self._listening: Listening | None = None
        self._seen = ""
        self._tasks: set[asyncio.Task[None]] = set()

    async def load(self) -> None:
        """Read everything, and be told of changes from here on."""
        await self._store.ensure_path(znode_paths.CONFIG_CHANGES)
        changes = await watch_config_changes(self._store, self._noted)
        self._seen = changes[-1].name if changes else ""
        for topic, overrides in (await read_configs(self._store, TOPICS)).items():
            self._topics.know_overrides(topic, overrides)
        brokers = await read_configs(self._store, BROKERS)
        self._warn(self._config.set_cluster_overrides(brokers.get(ALL_BROKERS, {})))
        self._warn(self._config.set_broker_overrides(brokers.get(str(self._broker_id), {})))

    def follow(self, replicas: ReplicaManager, listening: Listening) -> None:
        """Pass changes on to these replicas and listeners too."""
        self._replicas = replicas
        self._listening = listening

    async def forget_old(self) -> None:
        await delete_expired_config_changes(self._store, self._clock.wall_ms())

    def _noted(self, event: WatchedEvent) -> None:
        task = asyncio.get_running_loop().create_task(self._catch_up())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _catch_up(self) -> None:
        try:
            for change in await watch_config_changes(self._store, self._noted):
                if change.name > self._seen:
                    self._seen = change.name
                    if change.entity_path is not None:
                        await self._apply(change.entity_path)
        except StoreError as broken:
            log.error("config_change_failed", reason=str(broken))

    async def _apply(self, entity_path: str) -> None:
        kind, _, name = entity_path.partition("/")
        if kind == TOPICS:
            self._topics.know_overrides(name, await read_config(self._store, kind, name))
            self._reconfigure([name])
        elif kind == BROKERS and name == ALL_BROKERS:
            self._warn(self._config.set_cluster_overrides(await read_config(self._store, kind, name)))
            self._reconfigure(None)
        elif kind == BROKERS and name == str(self._broker_id):
            self._warn(self._config.set_broker_overrides(await read_config(self._store, kind, name)))
            self._reconfigure(None)
            await self._listen()

    async def _listen(self) -> None:
        """Listen as the settings say. Whoever changed them through this broker has seen to that already."""
        if self._listening is not None:
            try:
                async with self._listening.changing_to(self._config.broker):
                    pass
            except BrokerError as refused:
                log.error("listeners_not_changed", reason=refused.message)

    def _reconfigure(self, topics: list[str] | None) -> None:
        if self._replicas is not None:
            self._replicas.reconfigure(topics)

    def _warn(self, problems: list[str]) -> None:
        for problem in problems:
            log.warning("setting_ignored", problem=problem)
