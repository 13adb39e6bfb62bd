"""Notifications of failed log directories to the controller: ``/log_dir_event_notification``."""

from __future__ import annotations

import asyncio
from typing import Final

from odradek.ports.clock import Clock
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import encode_log_dir_event
from odradek.store.port import StoreError, StoreProvider
from odradek.telemetry import events

RETRY_MS: Final = 1_000

log = events.logger("broker")


class LogDirNotifier:
    """Writes notifications until the store accepts them; several failures meanwhile share one."""

    def __init__(self, stores: StoreProvider, broker_id: int, clock: Clock) -> None:
        self._stores = stores
        self._broker_id = broker_id
        self._clock = clock
        self._is_pending = False
        self._task: asyncio.Task[None] | None = None

    def notify(self) -> None:
        """Tell the controller that replicas of this broker are offline."""
        self._is_pending = True
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._write())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _write(self) -> None:
        try:
            while self._is_pending:
                self._is_pending = False
                try:
                    await self._stores.store.ensure_path(znode_paths.LOG_DIR_EVENT_NOTIFICATION)
                    await self._stores.store.create(
                        f"{znode_paths.LOG_DIR_EVENT_NOTIFICATION}/{znode_paths.LOG_DIR_EVENT_PREFIX}",
                        encode_log_dir_event(self._broker_id),
                        sequence=True,
                    )
                except StoreError as error:
                    log.warning("log_dir_notification_retry", reason=str(error))
                    self._is_pending = True
                    await self._clock.sleep_ms(RETRY_MS)
        finally:
            self._task = None
