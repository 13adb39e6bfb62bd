"""Periodic log maintenance: flushes, retention, checkpoints, file removal, producer expiry.

Each task iterates over all logs and reads their current configs, so that a changed config applies from the
next run on. A failing log does not stop the others, and iteration yields to the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from operator import attrgetter
from typing import Final

from odradek.broker.scheduled_tasks import ScheduledTask
from odradek.config import broker as settings
from odradek.config.dynamic.broker_config import DynamicBrokerConfig
from odradek.log.directory.log_directory import LogDirectory
from odradek.log.log import Log
from odradek.log.old_segments import delete_old_segments, delete_pending_segments
from odradek.model.errors import BrokerError, StorageError
from odradek.model.ids import TopicPartition
from odradek.ports.clock import Clock
from odradek.telemetry import events

SHORT_INTERVAL_MS: Final = 1_000
"""Interval of flushing rolled segments and of removing deleted ones that are due."""

FLUSH_CHECK_MS: Final = 1_000
"""Interval of the flush.ms check if log.flush.scheduler.interval.ms is not set. Kafka never checks then, so
that a topic's flush.ms has no effect."""

LOGS_PER_BATCH: Final = 64
"""Logs visited before yielding to the event loop."""

log = events.logger("log_maintenance")

_NEVER: Final = 2**63 - 1


class LogMaintenance:
    def __init__(
        self,
        directories: Iterable[LogDirectory],
        config: DynamicBrokerConfig,
        clock: Clock,
        on_log_start_changed: Callable[[TopicPartition], None] = lambda _: None,
    ) -> None:
        self._on_log_start_changed = on_log_start_changed
        self._directories = directories
        self._config = config
        self._clock = clock

    def tasks(self) -> list[ScheduledTask]:
        """Return the tasks with Kafka's intervals and initial delay."""
        values = self._config.broker
        delay_ms = values[settings.LOG_INITIAL_TASK_DELAY_MS]
        check_ms = values[settings.LOG_FLUSH_SCHEDULER_INTERVAL_MS]
        return [
            ScheduledTask("flush_rolled", SHORT_INTERVAL_MS, self.flush_rolled),
            ScheduledTask("flush_due", FLUSH_CHECK_MS if check_ms == _NEVER else check_ms, self.flush_due),
            ScheduledTask("remove_deleted", SHORT_INTERVAL_MS, self.remove_deleted),
            ScheduledTask(
                "apply_retention",
                values[settings.LOG_RETENTION_CHECK_INTERVAL_MS],
                self.apply_retention,
                delay_ms,
            ),
            ScheduledTask(
                "checkpoint_recovery_points",
                values[settings.LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS],
                self.checkpoint_recovery_points,
                delay_ms,
            ),
            ScheduledTask(
                "checkpoint_log_start_offsets",
                values[settings.LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS],
                self.checkpoint_log_start_offsets,
                delay_ms,
            ),
            ScheduledTask(
                "checkpoint_high_watermarks",
                values[settings.REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS],
                self.checkpoint_high_watermarks,
            ),
            ScheduledTask(
                "expire_producers",
                values[settings.PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS],
                self.expire_producers,
            ),
        ]

    async def _healthy_logs(self, is_wanted: Callable[[Log], bool] | None = None) -> AsyncIterator[Log]:
        """Iterate over the wanted logs that have not failed, yielding to the event loop.

        Few logs are wanted each second: the others must not cost a turn of an iterator each.
        """
        for directory in self._directories:
            logs = list(directory) if is_wanted is None else list(filter(is_wanted, directory))
            for number, partition_log in enumerate(logs):
                if number % LOGS_PER_BATCH == LOGS_PER_BATCH - 1:
                    await asyncio.sleep(0)
                if (
                    partition_log.failure is None
                    and directory.get(partition_log.topic_partition) is partition_log
                ):
                    yield partition_log

    # Flushes.

    async def flush_rolled(self) -> None:
        for directory in self._directories:
            await directory.flush_rolled()

    async def flush_due(self) -> None:
        """Flush the logs whose last flush is ``flush.ms`` ago by the monotonic clock."""
        now_ms = self._clock.monotonic_ms()
        async for partition_log in self._healthy_logs(_may_be_due):
            if partition_log.flushed_ms is None:
                partition_log.flushed_ms = now_ms
            if now_ms - partition_log.flushed_ms >= partition_log.config.flush_ms:
                partition_log.flushed_ms = now_ms
                try:
                    await partition_log.flush()
                except StorageError as error:
                    log.error("flush_failed", partition=partition_log.topic_partition, reason=str(error))

    # Deletion.

    async def apply_retention(self) -> None:
        """Delete segments by retention.ms, retention.bytes and log start offset."""
        now_ms = self._clock.wall_ms()
        async for partition_log in self._healthy_logs():
            try:
                segments = await delete_old_segments(partition_log, now_ms, self._clock.monotonic_ms())
            except (BrokerError, StorageError) as error:
                log.error("retention_failed", partition=partition_log.topic_partition, reason=str(error))
                continue
            if segments:
                self._on_log_start_changed(partition_log.topic_partition)
            for segment in segments:
                log.info(
                    "segment_deleted",
                    partition=partition_log.topic_partition,
                    base_offset=segment.base_offset,
                    size_bytes=segment.size_bytes,
                    reason=segment.reason,
                )

    async def remove_deleted(self) -> None:
        """Remove the files of segments and logs whose file.delete.delay.ms has passed."""
        now_ms = self._clock.monotonic_ms()
        async for partition_log in self._healthy_logs(attrgetter("pending_deletes")):
            try:
                await delete_pending_segments(partition_log, now_ms)
            except (BrokerError, StorageError) as error:
                log.error("removal_failed", partition=partition_log.topic_partition, reason=str(error))
        for directory in self._directories:
            await directory.remove_due(now_ms)

    # Checkpoints and producer expiry.

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
        async for partition_log in self._healthy_logs():
            partition_log.expire_producers(now_ms, expiration_ms)


def _may_be_due(partition_log: Log) -> bool:
    """A log without ``flush.ms`` is visited once: from then on its time counts, if the setting changes."""
    return partition_log.flushed_ms is None or partition_log.config.flush_ms != _NEVER
