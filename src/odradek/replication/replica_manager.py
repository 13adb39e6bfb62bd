"""The partitions of this broker: lookup, role changes on behalf of the controller, delayed requests.

Owns the produce and fetch purgatories: every change of a partition made here completes the delayed requests
it satisfies. Rules of a single partition are in ``Partition``.

A partition whose log cannot be used is offline: it is not found, and requests fail with
KAFKA_STORAGE_ERROR. If its directory failed, it stays offline until the next start. If its log could not be
created because every disk was full, or could not be opened while others could, that is retried
periodically.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from odradek.cluster.metadata_cache import MetadataCache
from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.log_directory import LogDirectory
from odradek.log.log_manager import LogManager
from odradek.model.errors import BrokerError, ErrorCode, StorageError
from odradek.model.ids import TopicId, TopicPartition
from odradek.ports.clock import Clock
from odradek.ports.workers import Workers
from odradek.replication.alter_log_dirs import AlterLogDirs, CleaningPause, NoCleaning
from odradek.replication.alter_log_dirs_throttle import AlterLogDirsLimits
from odradek.replication.append_queue import AppendQueue, QueuedAppend, Source
from odradek.replication.isr_state import IsrState
from odradek.replication.partition import DEBUGGING_CONSUMER_ID, LeaderAndIsr, Partition
from odradek.replication.pending_flushes import FlushCallback, PendingFlushes
from odradek.telemetry import events
from odradek.timers.purgatory import DelayedOperation, DelayedOperationPurgatory
from odradek.timers.timing_wheel import TimingWheel

# Logs created concurrently: their directories are synced together, and one large topic does not occupy all
# threads.
CONCURRENT_LOG_CREATIONS_MAX = 32

log = events.logger("replica_manager")


class _RetryableLog(NamedTuple):
    """An offline partition whose log may become usable. An existing log is never replaced by an empty one."""

    topic_id: TopicId
    is_new: bool
    """True if the partition never had a log."""


class ReplicaManager:
    def __init__(
        self,
        broker_id: int,
        log_manager: LogManager,
        metadata_cache: MetadataCache,
        config_of: Callable[[str], tuple[LogConfig, int]],
        clock: Clock,
        wheel: TimingWheel,
        arm: Callable[[int], None],
        replica_lag_time_max_ms: Callable[[], int],
        workers: Workers,
        alter_log_dirs_limits: Callable[[], AlterLogDirsLimits] = AlterLogDirsLimits,
        cleaning: CleaningPause | None = None,
    ) -> None:
        """``config_of`` returns a topic's log config and min.insync.replicas; ``arm`` schedules a wake-up."""
        self._broker_id = broker_id
        self._log_manager = log_manager
        self._metadata_cache = metadata_cache
        self._config_of = config_of
        self._clock = clock
        self._arm = arm
        self._replica_lag_time_max_ms = replica_lag_time_max_ms
        self._topics: dict[str, dict[int, Partition]] = {}
        self._offline: set[TopicPartition] = set()
        self._retryable: dict[TopicPartition, _RetryableLog] = {}
        """Offline partitions whose logs may still be created or opened."""
        self._produces = DelayedOperationPurgatory("produce", wheel)
        self._fetches = DelayedOperationPurgatory("fetch", wheel)
        self._flushes = PendingFlushes(self._on_flushed)
        self._appends = AppendQueue(workers, clock)
        self.leadership_observers: list[Callable[[Partition], None]] = []
        """Called when this broker becomes leader of a partition or ceases to be, before delayed requests."""
        self.alter_log_dirs = AlterLogDirs(
            log_manager,
            self.get_partition,
            self.partition_error,
            clock,
            alter_log_dirs_limits,
            cleaning or NoCleaning(),
        )

    def __iter__(self) -> Iterator[Partition]:
        for partitions in self._topics.values():
            yield from partitions.values()

    def __len__(self) -> int:
        return sum(map(len, self._topics.values()))

    # Lookup.

    def get_partition(self, topic: str | None, number: int) -> Partition | None:
        partitions = self._topics.get(topic)  # type: ignore[arg-type]
        return None if partitions is None else partitions.get(number)

    def get_leader_partition(self, topic: str, number: int) -> Partition:
        """Return the partition if this broker leads it; else raise the error that makes clients refresh."""
        partition = self.get_partition(topic, number)
        if partition is None:
            raise self.partition_error(topic, number)
        if not partition.is_leader:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return partition

    def get_readable_partition(self, replica_id: int, topic: str, number: int) -> Partition:
        """Return the partition to read from: the leader, or any replica for a debugging tool."""
        partition = self.get_partition(topic, number)
        if partition is not None and replica_id == DEBUGGING_CONSUMER_ID:
            return partition
        return self.get_leader_partition(topic, number)

    def partition_error(self, topic: str | None, number: int) -> BrokerError:
        """Return the error for a partition that is not on this broker."""
        if topic is None:
            return BrokerError(ErrorCode.UNKNOWN_TOPIC_ID)
        if (topic, number) in self._offline:
            return BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {topic}-{number} is offline")
        if self._metadata_cache.partition(topic, number) is None:
            return BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # Delayed requests.

    def delay_produce(
        self, operation: DelayedOperation, partitions: Sequence[Partition], timeout_ms: int
    ) -> None:
        self._delay(self._produces, operation, partitions, timeout_ms)

    def delay_fetch(
        self, operation: DelayedOperation, partitions: Sequence[Partition], timeout_ms: int
    ) -> None:
        self._delay(self._fetches, operation, partitions, timeout_ms)

    def complete_delayed_fetches(self, partition: Partition) -> None:
        """Complete delayed fetches after an append, which may have moved the high watermark."""
        self._fetches.check_and_complete(partition)

    def queue_append(self, partition: Partition, source: Source, append: QueuedAppend) -> None:
        """Append once the records are validated, after the appends this source has queued before."""
        self._appends.add(partition, source, append)

    def must_queue_append(self, partition: Partition, source: Source) -> bool:
        """Return whether an append of this source must queue behind its earlier ones."""
        return self._appends.has(partition, source)

    async def drain_appends(self) -> None:
        """Wait until queued appends are made and their responses sent; for a shutdown."""
        await self._appends.drain()

    def flush(self, partition: Partition, callback: FlushCallback) -> None:
        """Flush a partition's log, then call back with None or the failure."""
        self._flushes.request(partition, callback)

    async def retry_flushes(self) -> None:
        """Retry flushes that failed for lack of space: the high watermark waits for them."""
        self._flushes.retry()

    async def drain_flushes(self) -> None:
        """Wait for flushes in progress; for a shutdown, before logs are closed."""
        await self._flushes.drain()

    def _on_flushed(self, partition: Partition) -> None:
        partition.on_flushed(self._clock.monotonic_ms())
        self.complete_delayed_requests(partition)

    def complete_delayed_requests(self, partition: Partition) -> None:
        """Complete delayed requests after a change of the partition's leader, ISR, config or offsets."""
        self._produces.check_and_complete(partition)
        self._fetches.check_and_complete(partition)

    def _leadership_changed(self, partition: Partition) -> None:
        for observer in self.leadership_observers:
            observer(partition)
        self.complete_delayed_requests(partition)

    def complete_all_delayed(self) -> None:
        """Complete all delayed requests with what there is; for a shutdown."""
        self._fetches.complete_all()
        self._produces.complete_all()

    def _delay(
        self,
        purgatory: DelayedOperationPurgatory,
        operation: DelayedOperation,
        partitions: Sequence[Partition],
        timeout_ms: int,
    ) -> None:
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        if not purgatory.try_complete_else_watch(operation, partitions, deadline_ms):
            self._arm(deadline_ms)

    # Requests of the controller.

    async def become_leader_or_follower(
        self,
        partition_states: Mapping[TopicPartition, tuple[TopicId, LeaderAndIsr]],
        new: Collection[TopicPartition] = (),
    ) -> list[TopicPartition]:
        """Apply a LeaderAndIsr request; return the partitions that are offline here.

        ``new`` partitions never had a log on any broker: a log may be created although directories have
        failed.
        """
        limit = asyncio.Semaphore(CONCURRENT_LOG_CREATIONS_MAX)

        async def apply(tp: TopicPartition, topic_id: TopicId, leader_and_isr: LeaderAndIsr) -> None:
            async with limit:
                await self._make_leader_or_follower(tp, topic_id, leader_and_isr, is_new=tp in new)

        await asyncio.gather(*(apply(tp, *state) for tp, state in partition_states.items()))
        return [tp for tp in partition_states if tp in self._offline]

    async def _make_leader_or_follower(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        leader_and_isr: LeaderAndIsr,
        *,
        is_new: bool,
    ) -> None:
        if topic_partition in self._offline:
            return
        partition = self.get_partition(*topic_partition)
        if partition is None:
            try:
                partition = await self._open(topic_partition, topic_id, is_new=is_new)
            except (StorageError, BrokerError) as error:
                log.error("log_open_failed", partition=topic_partition, reason=str(error))
                if isinstance(error, StorageError) or error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                    self._take_offline(topic_partition, topic_id, is_new=is_new)
                return
        if leader_and_isr.leader == self._broker_id:
            isr_state = IsrState(
                self._broker_id, self._replica_lag_time_max_ms(), self._metadata_cache.is_alive
            )
            partition.make_leader(leader_and_isr, isr_state, self._clock.monotonic_ms())
        else:
            partition.make_follower(leader_and_isr)
        was_opened = self.get_partition(*topic_partition) is None
        self._topics.setdefault(topic_partition.topic, {})[topic_partition.partition] = partition
        if was_opened:
            self.alter_log_dirs.resume(partition)
        self._leadership_changed(partition)

    def _take_offline(self, topic_partition: TopicPartition, topic_id: TopicId, *, is_new: bool) -> None:
        """Take a partition offline whose log cannot be used now, and note whether a retry may help."""
        self._offline.add(topic_partition)
        log_manager = self._log_manager
        has_log = log_manager.find(topic_partition) or log_manager.find_unusable(topic_partition)
        if has_log or is_new or not log_manager.failed:
            self._retryable[topic_partition] = _RetryableLog(topic_id, is_new=not has_log)

    async def retry_offline_partitions(self) -> list[TopicPartition]:
        """Create or open logs that could not be before; return the partitions that are usable now."""
        usable = []
        for topic_partition, retryable in list(self._retryable.items()):
            try:
                is_usable = await self._retry_log(topic_partition, retryable)
            except StorageError:
                break  # the disk is still full
            except BrokerError:
                continue
            if topic_partition not in self._retryable:  # deleted meanwhile
                self._delete_log(topic_partition)
            elif is_usable:
                del self._retryable[topic_partition]
                self._offline.discard(topic_partition)
                usable.append(topic_partition)
        return usable

    async def _retry_log(self, topic_partition: TopicPartition, retryable: _RetryableLog) -> bool:
        """Create or open the log of an offline partition; return whether it is usable."""
        unusable_in = self._log_manager.find_unusable(topic_partition)
        if unusable_in is not None:
            return await unusable_in.reopen(topic_partition)
        directory_and_log = self._log_manager.find(topic_partition)
        if directory_and_log is not None:
            try:
                directory_and_log[1].assign_topic_id(retryable.topic_id)
            except StorageError:
                return False
            return True
        if not retryable.is_new:
            return False  # its directory has failed meanwhile
        config, _ = self._config_of(topic_partition.topic)
        await self._log_manager.create(topic_partition, config, retryable.topic_id, is_new=True)
        return True

    async def _open(self, topic_partition: TopicPartition, topic_id: TopicId, *, is_new: bool) -> Partition:
        config, min_isr = self._config_of(topic_partition.topic)
        partition_log = self._existing_log(topic_partition)
        if partition_log is None:
            partition_log = await self._log_manager.create(
                topic_partition,
                config,
                topic_id,
                is_new=is_new,
                preferred=self.alter_log_dirs.take_preferred(topic_partition),
            )
        else:
            partition_log.assign_topic_id(topic_id)
            partition_log.configure(config)
        return Partition(topic_partition, topic_id, partition_log, self._broker_id, min_isr)

    def _existing_log(self, topic_partition: TopicPartition) -> Log | None:
        directory_and_log = self._log_manager.find(topic_partition)
        if directory_and_log is None:
            return None
        directory, existing = directory_and_log
        checkpointed = min(directory.high_watermarks.get(topic_partition, 0), existing.log_end_offset)
        existing.high_watermark = max(existing.high_watermark, checkpointed)
        return existing

    def stop_replicas(self, topic_partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Stop these replicas, delete their logs and complete delayed requests for them.

        Returns the removed partitions. An offline one is not removed: its files are still there.
        """
        removed = []
        for topic_partition in topic_partitions:
            retryable = self._retryable.get(topic_partition)
            if retryable is not None and self._log_manager.find_unusable(topic_partition) is None:
                del self._retryable[topic_partition]
                self._offline.discard(topic_partition)
                if not retryable.is_new:
                    self._delete_log(topic_partition)
            if topic_partition in self._offline:
                continue
            partition = self._topics.get(topic_partition.topic, {}).pop(topic_partition.partition, None)
            if partition is not None:
                partition.delete()
                self._delete_log(topic_partition)
                self._leadership_changed(partition)
            if not self._topics.get(topic_partition.topic, True):
                del self._topics[topic_partition.topic]
            removed.append(topic_partition)
        return removed

    def _delete_log(self, topic_partition: TopicPartition) -> None:
        # The future log first: alone, it would be taken for the partition's log at the next start.
        self.alter_log_dirs.drop(topic_partition)
        directory_and_log = self._log_manager.find(topic_partition)
        if directory_and_log is not None:
            try:
                directory_and_log[0].delete(topic_partition, self._clock.monotonic_ms())
            except (StorageError, BrokerError) as error:
                log.error("log_deletion_failed", partition=topic_partition, reason=str(error))

    # Failures.

    def handle_log_dir_failure(self, directory: LogDirectory) -> list[TopicPartition]:
        """Take the partitions of a failed directory offline, and return them."""
        self.alter_log_dirs.on_directory_failure(directory)
        offline = [
            partition for partition in self if directory.get(partition.topic_partition) is partition.log
        ]
        for partition in offline:
            topic, number = partition.topic_partition
            self._offline.add(partition.topic_partition)
            del self._topics[topic][number]
            if not self._topics[topic]:
                del self._topics[topic]
            partition.mark_offline()
            self._leadership_changed(partition)
        return [partition.topic_partition for partition in offline]

    # Configs.

    def reconfigure(self, topics: Iterable[str] | None = None) -> None:
        """Apply changed configs of these topics, or of all."""
        for topic in list(self._topics) if topics is None else topics:
            for partition in self._topics.get(topic, {}).values():
                config, partition.min_isr = self._config_of(topic)
                partition.log.configure(config)
                self.complete_delayed_requests(partition)
