"""The periodic work on logs: flushes, retention, checkpoints, removal of what was deleted, producer expiry.

Each piece of work goes over all logs and asks their settings anew, so that a changed setting holds from the
next time on. A log that fails does not keep the others from their turn, and no turn keeps the loop for long.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Final

from odradek.broker.scheduled_tasks import Chore
from odradek.config import broker as settings
from odradek.config.dynamic.broker_config import DynamicBrokerConfig
from odradek.log.log import Log
from odradek.log.log_directory import LogDirectory
from odradek.model.errors import BrokerError, StorageError
from odradek.ports.clock import Clock
from odradek.telemetry import events

SOON_MS: Final = 1_000
"""How long after a segment ended it is flushed, and after its time came a deleted one is removed."""

FLUSH_LOOK_MS: Final = 1_000
"""How often flushes that are due by time are looked for, if log.flush.scheduler.interval.ms is not set. Kafka
would never look, and a topic's flush.ms would be without effect."""

LOGS_A_TURN: Final = 64
"""Logs gone over before others on the loop have their turn."""

log = events.logger("log_maintenance")

_NEVER: Final = 2**63 - 1


class Upkeep:
    def __init__(
        self, directories: Iterable[LogDirectory], config: DynamicBrokerConfig, clock: Clock
    ) -> None:
        self._directories = directories
        self._config = config
        self._clock = clock

    def chores(self) -> list[Chore]:
        """Kafka's schedules, and the first time of its initial delay."""
        values = self._config.broker
        delay_ms = values[settings.LOG_INITIAL_TASK_DELAY_MS]
        look_ms = values[settings.LOG_FLUSH_SCHEDULER_INTERVAL_MS]
        return [
            Chore("flush_rolled", SOON_MS, self.flush_rolled),
            Chore("flush_due", FLUSH_LOOK_MS if look_ms == _NEVER else look_ms, self.flush_due),
            Chore("remove_deleted", SOON_MS, self.remove_deleted),
            Chore("retain", values[settings.LOG_RETENTION_CHECK_INTERVAL_MS], self.retain, delay_ms),
            Chore(
                "checkpoint_recovery_points",
                values[settings.LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS],
                self.checkpoint_recovery_points,
                delay_ms,
            ),
            Chore(
                "checkpoint_log_start_offsets",
                values[settings.LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS],
                self.checkpoint_log_start_offsets,
                delay_ms,
            ),
            Chore(
                "checkpoint_high_watermarks",
                values[settings.REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS],
                self.checkpoint_high_watermarks,
            ),
            Chore(
                "expire_producers",
                values[settings.PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS],
                self.expire_producers,
            ),
        ]

    async def _sound_logs(self) -> AsyncIterator[Log]:
        """All logs that have not failed; others on the loop run in between."""
        for directory in self._directories:
            for number, one in enumerate(list(directory)):
                if number % LOGS_A_TURN == LOGS_A_TURN - 1:
                    await asyncio.sleep(0)
                if one.failure is None and directory.get(one.topic_partition) is one:
                    yield one

    # Flushes.

    async def flush_rolled(self) -> None:
        for directory in self._directories:
            await directory.flush_rolled()

    async def flush_due(self) -> None:
        """Flush the logs that have not been for ``flush.ms``. Times are told by the monotonic clock."""
        now_ms = self._clock.monotonic_ms()
        async for one in self._sound_logs():
            if one.flushed_ms is None:
                one.flushed_ms = now_ms
            if now_ms - one.flushed_ms >= one.config.flush_ms:
                one.flushed_ms = now_ms
                try:
                    await one.flush()
                except StorageError as failed:
                    log.error("flush_failed", partition=one.topic_partition, reason=str(failed))

    # Deletion.

    async def retain(self) -> None:
        """Let go of what is too old, too much, or before the start of its log."""
        now_ms = self._clock.wall_ms()
        async for one in self._sound_logs():
            try:
                gone = await one.delete_old_segments(now_ms, self._clock.monotonic_ms())
            except (BrokerError, StorageError) as failed:
                log.error("retention_failed", partition=one.topic_partition, reason=str(failed))
                continue
            for due in gone:
                log.info(
                    "segment_deleted",
                    partition=one.topic_partition,
                    base_offset=due.base_offset,
                    size_bytes=due.size_bytes,
                    reason=due.reason,
                )

    async def remove_deleted(self) -> None:
        """Remove files of segments and of logs that were deleted long enough ago."""
        now_ms = self._clock.monotonic_ms()
        async for one in self._sound_logs():
            try:
                await one.delete_pending_segments(now_ms)
            except (BrokerError, StorageError) as failed:
                log.error("removal_failed", partition=one.topic_partition, reason=str(failed))
        for directory in self._directories:
            await directory.remove_due(now_ms)

    # What is written down and what is forgotten.

    async def checkpoint_recovery_points(self) -> None:
        for directory in self._directories:
            await directory.checkpoint_recovery_points()

    async def checkpoint_log_start_offsets(self) -> None:
        for directory in self._directories:
            await directory.checkpoint_log_start_offsets()

    async def checkpoint_high_watermarks(self) -> None:
        for directory in self._directories:
            await directory.checkpoint_high_watermarks()

    async def expire_producers(self) -> None:
        now_ms = self._clock.wall_ms()
        expiration_ms = self._config.broker[settings.PRODUCER_ID_EXPIRATION_MS]
        async for one in self._sound_logs():
            one.expire_producers(now_ms, expiration_ms)
