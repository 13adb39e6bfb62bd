"""The logs of partitions: created or opened when a role begins, deleted when the controller says so.

A partition whose log cannot be used is offline. If its directory failed, it stays offline until the next
start. If its log could not be created because every disk was full, or could not be opened while others
could, that is retried periodically.

Invariant: an existing log is never replaced by an empty one, whose offsets would begin again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.log_manager import LogManager
from odradek.model.errors import BrokerError, ErrorCode, StorageError
from odradek.model.ids import ZERO_TOPIC_ID, TopicId, TopicPartition
from odradek.ports.clock import Clock
from odradek.replication.log_dirs.alter_log_dirs import AlterLogDirs
from odradek.telemetry import events

log = events.logger("partition_logs")


class RetryableLog(NamedTuple):
    """An offline partition whose log may become usable."""

    topic_id: TopicId
    is_new: bool
    """True if the partition never had a log."""


class PartitionLogs:
    def __init__(
        self,
        log_manager: LogManager,
        alter_log_dirs: AlterLogDirs,
        config_of: Callable[[str], tuple[LogConfig, int]],
        clock: Clock,
    ) -> None:
        """``config_of`` returns a topic's log config and min.insync.replicas."""
        self._log_manager = log_manager
        self._alter_log_dirs = alter_log_dirs
        self._config_of = config_of
        self._clock = clock
        self.offline: set[TopicPartition] = set()
        """Partitions whose logs cannot be used."""
        self._retryable: dict[TopicPartition, RetryableLog] = {}
        """Offline partitions whose logs may still be created or opened."""

    async def open(self, topic_partition: TopicPartition, topic_id: TopicId, *, is_new: bool) -> Log:
        """Return the log of a partition; creates it if there is none and no failed directory may have it.

        ``is_new`` partitions never had a log on any broker.
        """
        config, _ = self._config_of(topic_partition.topic)
        existing = self._find_log(topic_partition)
        if existing is None:
            return await self._log_manager.create(
                topic_partition,
                config,
                _known(topic_id),
                is_new=is_new,
                preferred=self._alter_log_dirs.take_preferred(topic_partition),
            )
        _assign_topic_id(existing, topic_id)
        existing.configure(config)
        return existing

    def has_log(self, topic_partition: TopicPartition) -> bool:
        """Return whether ``open`` finds a log, and so does not wait."""
        return self._log_manager.find(topic_partition) is not None

    def min_isr_of(self, topic: str) -> int:
        """Return min.insync.replicas of a topic."""
        return self._config_of(topic)[1]

    def _find_log(self, topic_partition: TopicPartition) -> Log | None:
        directory_and_log = self._log_manager.find(topic_partition)
        if directory_and_log is None:
            return None
        directory, existing = directory_and_log
        checkpointed = min(directory.high_watermarks.get(topic_partition, 0), existing.log_end_offset)
        existing.high_watermark = max(existing.high_watermark, checkpointed)
        return existing

    def delete(self, topic_partition: TopicPartition) -> ErrorCode:
        """Delete the log of a partition, if there is one."""
        # The future log first: alone, it would be taken for the partition's log at the next start.
        self._alter_log_dirs.drop(topic_partition)
        directory_and_log = self._log_manager.find(topic_partition)
        if directory_and_log is not None:
            try:
                directory_and_log[0].delete(topic_partition, self._clock.monotonic_ms())
            except (StorageError, BrokerError) as error:
                log.error("log_deletion_failed", partition=topic_partition, reason=str(error))
                return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE

    async def sync_deletes(self) -> ErrorCode:
        """Make deletions durable: after a power failure the logs would be there again.

        All directories are synced: a future log may have been deleted in another one.
        """
        error = ErrorCode.NONE
        for directory in self._log_manager:
            try:
                await directory.sync_directory()
            except StorageError:
                error = ErrorCode.KAFKA_STORAGE_ERROR
        return error

    # Offline partitions.

    def take_offline(self, topic_partition: TopicPartition, topic_id: TopicId, *, is_new: bool) -> None:
        """Take a partition offline whose log cannot be used now, and note whether a retry may help."""
        self.offline.add(topic_partition)
        log_manager = self._log_manager
        has_log = log_manager.find(topic_partition) or log_manager.find_unusable(topic_partition)
        if has_log or is_new or not log_manager.failed:
            self._retryable[topic_partition] = RetryableLog(topic_id, is_new=not has_log)

    def give_up_retry(self, topic_partition: TopicPartition) -> None:
        """Stop retrying a log that is to be deleted; the partition is not offline then.

        An unusable log stays: its files are still there.
        """
        if topic_partition in self._retryable and self._log_manager.find_unusable(topic_partition) is None:
            del self._retryable[topic_partition]
            self.offline.discard(topic_partition)

    async def retry_offline(self) -> list[TopicPartition]:
        """Create or open logs that could not be before; return the partitions that are usable now."""
        usable = []
        for topic_partition, retryable in list(self._retryable.items()):
            try:
                is_usable = await self.retry_log(topic_partition, retryable)
            except StorageError:
                break  # the disk is still full
            except BrokerError:
                continue
            if topic_partition not in self._retryable:  # deleted meanwhile
                self.delete(topic_partition)
            elif is_usable:
                del self._retryable[topic_partition]
                self.offline.discard(topic_partition)
                usable.append(topic_partition)
        return usable

    async def retry_log(self, topic_partition: TopicPartition, retryable: RetryableLog) -> bool:
        """Create or open the log of an offline partition; return whether it is usable."""
        unusable_in = self._log_manager.find_unusable(topic_partition)
        if unusable_in is not None:
            return await unusable_in.reopen(topic_partition)
        directory_and_log = self._log_manager.find(topic_partition)
        if directory_and_log is not None:
            try:
                _assign_topic_id(directory_and_log[1], retryable.topic_id)
            except StorageError:
                return False
            return True
        if not retryable.is_new:
            return False  # its directory has failed meanwhile
        config, _ = self._config_of(topic_partition.topic)
        await self._log_manager.create(topic_partition, config, _known(retryable.topic_id), is_new=True)
        return True


def _known(topic_id: TopicId) -> TopicId | None:
    return None if topic_id == ZERO_TOPIC_ID else topic_id


def _assign_topic_id(existing: Log, topic_id: TopicId) -> None:
    if topic_id != ZERO_TOPIC_ID:
        existing.assign_topic_id(topic_id)
