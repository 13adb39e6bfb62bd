"""The partitions of this broker: lookup, requests of the controller, followers' fetches, delayed requests.

Owns the purgatories: every change of a partition made here completes the delayed requests it satisfies.
Rules of a single partition are in ``Partition``.

Requests of the controller are applied by ``StateChanges``.

A partition whose log cannot be used is offline: it is not found, and requests fail with
KAFKA_STORAGE_ERROR (see ``PartitionLogs``).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

from odradek.cluster.metadata_cache import MetadataCache
from odradek.log.directory.log_directory import LogDirectory
from odradek.log.log_config import LogConfig
from odradek.log.log_manager import LogManager
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import TopicPartition
from odradek.ports.clock import Clock
from odradek.ports.workers import Workers
from odradek.replication.append_queue import AppendQueue, QueuedAppend, Source
from odradek.replication.control_requests import ControlResult, MetadataChange
from odradek.replication.fetch_sessions.fetch_session_cache import FetchSessionCache
from odradek.replication.fetch_sessions.follower_watches import record_settled_fetches
from odradek.replication.hosted_partitions import HostedPartitions
from odradek.replication.isr.isr_changes import IsrChanges
from odradek.replication.leader import Leader
from odradek.replication.log_dirs.alter_log_dirs import AlterLogDirs, CleaningPause, NoCleaning
from odradek.replication.log_dirs.alter_log_dirs_throttle import AlterLogDirsLimits
from odradek.replication.partition import DEBUGGING_CONSUMER_ID, Partition
from odradek.replication.partition_logs import PartitionLogs
from odradek.replication.pending_flushes import FlushCallback, PendingFlushes
from odradek.replication.quotas.replication_quota_manager import ReplicationQuotaManager
from odradek.replication.reads.read_replica import find_read_replica
from odradek.replication.reads.replica_selector import ReplicaSelector
from odradek.replication.state_changes import StateChanges
from odradek.timers.purgatory import DelayedOperation, DelayedOperationPurgatory
from odradek.timers.threshold_purgatory import ThresholdPurgatory
from odradek.timers.timing_wheel import TimingWheel
from odradek.wire.messages.leader_and_isr import LeaderAndIsrRequest
from odradek.wire.messages.stop_replica import StopReplicaRequest
from odradek.wire.messages.update_metadata import UpdateMetadataRequest


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
        self._metadata_cache = metadata_cache
        self._config_of = config_of
        self._clock = clock
        self._arm = arm
        self._replica_lag_time_max_ms = replica_lag_time_max_ms
        self.leader_quota: ReplicationQuotaManager | None = None
        """Throttle of followers' fetches; None if this broker is the only one."""
        self.replica_selector: ReplicaSelector | None = None
        """Selection of the replica that a consumer reads; None for the leader."""
        self._partitions = HostedPartitions()
        self._by_topic = self._partitions.by_topic  # the hot path looks partitions up here
        self._produces = ThresholdPurgatory("produce", wheel)
        self._fetches = DelayedOperationPurgatory("fetch", wheel)
        self._deletes = DelayedOperationPurgatory("delete_records", wheel)
        self._fetch_session_cache: FetchSessionCache | None = None
        self._flushes = PendingFlushes(self._on_flushed)
        self._appends = AppendQueue(workers, clock)
        self.isr_changes = IsrChanges(self.complete_delayed_requests)
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
        self.alter_log_dirs.on_low_watermark = self._deletes.check_and_complete
        self._logs = PartitionLogs(log_manager, self.alter_log_dirs, config_of, clock)
        self.state_changes = StateChanges(
            broker_id,
            self._partitions,
            self._logs,
            self.alter_log_dirs,
            metadata_cache,
            self._new_leader,
            self._leadership_changed,
            self.complete_delayed_requests,
        )

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions)

    def __len__(self) -> int:
        return len(self._partitions)

    # Lookup.

    def get_partition(self, topic: str | None, number: int) -> Partition | None:
        partitions = self._by_topic.get(topic)  # type: ignore[arg-type]
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
        if (topic, number) in self._logs.offline:
            return BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {topic}-{number} is offline")
        if self._metadata_cache.partition(topic, number) is None:
            return BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def find_preferred_read_replica(
        self, partition: Partition, fetch_offset: int, client_rack: str, listener: str
    ) -> int | None:
        """Return the follower that a consumer should read instead of this leader (KIP-392), if any."""
        select, leader = self.replica_selector, partition.leader_state
        if select is None or leader is None or not leader.has_followers:
            return None
        record_settled_fetches(self._fetches, partition)
        return find_read_replica(
            select, partition, leader, self._metadata_cache, fetch_offset, client_rack, listener
        )

    # Delayed requests.

    def delay_produce(
        self, operation: DelayedOperation, required_offsets: Mapping[Partition, int], timeout_ms: int
    ) -> None:
        """Delay an operation until the high watermarks of partitions have reached the required offsets."""
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        if not self._produces.delay(operation, required_offsets, deadline_ms):
            self._arm(deadline_ms)

    def delay_fetch(self, operation: DelayedOperation, keys: Sequence[Hashable], timeout_ms: int) -> None:
        """Delay a fetch, watching partitions or the ``FollowerWatches`` of its session."""
        self._delay(self._fetches, operation, keys, timeout_ms)

    def delay_delete_records(
        self, operation: DelayedOperation, partitions: Sequence[Partition], timeout_ms: int
    ) -> None:
        self._delay(self._deletes, operation, partitions, timeout_ms)

    def complete_delayed_fetches(self, partition: Partition) -> None:
        """Complete delayed fetches after an append, which may have moved the high watermark."""
        self._fetches.check_and_complete(partition)

    def on_replica_appended(self, topic_partition: TopicPartition) -> None:
        """Complete delayed fetches of consumers that read this broker's follower (KIP-392)."""
        partition = self.get_partition(*topic_partition)
        if partition is not None:
            self.complete_delayed_fetches(partition)

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
        partition.on_flushed()
        self.complete_delayed_requests(partition)

    def complete_delayed_requests(self, partition: Partition) -> None:
        """Complete delayed requests after a change of the partition's leader, ISR, config or offsets."""
        self._produces.check_and_complete(partition)
        self._fetches.check_and_complete(partition)
        self._deletes.check_and_complete(partition)

    def _leadership_changed(self, partition: Partition) -> None:
        if partition.is_leader and partition.is_flush_pending:
            self._flushes.request(partition, lambda failure: None)
        for observer in self.leadership_observers:
            observer(partition)
        self.complete_delayed_requests(partition)

    def complete_all_delayed(self) -> None:
        """Complete all delayed requests with what there is; for a shutdown."""
        self._fetches.complete_all()
        self._produces.complete_all()
        self._deletes.complete_all()

    def _delay(
        self,
        purgatory: DelayedOperationPurgatory,
        operation: DelayedOperation,
        keys: Sequence[Hashable],
        timeout_ms: int,
    ) -> None:
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        if not purgatory.try_complete_else_watch(operation, keys, deadline_ms):
            self._arm(deadline_ms)

    # Followers and the ISR.

    def record_follower_fetch(
        self, partition: Partition, broker_id: int, fetch_offset: int, log_start_offset: int
    ) -> None:
        """Record a follower's fetch after a successful read without a diverging epoch.

        The follower may join the ISR, and the high watermark may move: that completes delayed requests.
        """
        partition.record_follower_fetch(broker_id, fetch_offset, log_start_offset)
        self.isr_changes.expand(partition, broker_id)
        if partition.advance_high_watermark():
            self._produces.check_reached(partition, partition.high_watermark)
            self._fetches.check_and_complete(partition)
        if self._deletes.delayed:
            self._deletes.check_and_complete(partition)  # the follower's log start offset may have moved

    async def shrink_isrs(self) -> None:
        """Propose to remove lagging followers from ISRs. Call every half ``replica.lag.time.max.ms``."""
        if self._fetch_session_cache is not None:
            self._fetch_session_cache.record_follower_fetches()
        for partition in self:
            self.isr_changes.shrink(partition)

    def watch_followers(self, fetch_session_cache: FetchSessionCache) -> None:
        """Watch the partitions of followers' sessions, so that a fetch looks only at those that changed."""
        fetch_session_cache.purgatory = self._fetches
        self._fetch_session_cache = fetch_session_cache

    def on_log_start_changed(self, topic_partition: TopicPartition) -> None:
        """Tell followers, or the leader, that retention has moved the log start offset of a partition."""
        partition = self.get_partition(*topic_partition)
        if partition is None:
            return
        if partition.is_leader:
            self.complete_delayed_fetches(partition)
        elif self.state_changes.fetcher_manager is not None:
            self.state_changes.fetcher_manager.refresh(topic_partition)

    # Requests of the controller.

    async def become_leader_or_follower(self, request: LeaderAndIsrRequest) -> ControlResult:
        """Apply a LeaderAndIsr request. Partitions that it does not name stay as they are."""
        return await self.state_changes.become_leader_or_follower(request)

    async def stop_replicas(self, request: StopReplicaRequest) -> ControlResult:
        """Apply a StopReplica request."""
        return await self.state_changes.stop_replicas(request)

    async def update_metadata(self, request: UpdateMetadataRequest) -> MetadataChange:
        """Apply an UpdateMetadata request to the metadata cache."""
        change = await self.state_changes.update_metadata(request)
        if self._deletes.delayed:
            for partition in list(self):  # replicas on dead brokers do not count any more
                self._deletes.check_and_complete(partition)
        return change

    def _new_leader(self) -> Leader:
        return Leader(
            self._broker_id,
            self._replica_lag_time_max_ms(),
            self._metadata_cache.is_alive,
            self._clock.monotonic_ms,
        )

    # Failures.

    async def retry_offline_partitions(self) -> list[TopicPartition]:
        """Create or open logs that could not be before; return the partitions that are usable now."""
        return await self._logs.retry_offline()

    def handle_log_dir_failure(self, directory: LogDirectory) -> list[TopicPartition]:
        """Take the partitions of a failed directory offline, and return them."""
        self.alter_log_dirs.on_directory_failure(directory)
        offline = [
            partition for partition in self if directory.get(partition.topic_partition) is partition.log
        ]
        self.state_changes.remove_fetchers(partition.topic_partition for partition in offline)
        for partition in offline:
            self._logs.offline.add(partition.topic_partition)
            self._partitions.remove(partition.topic_partition)
            partition.mark_offline()
            self._leadership_changed(partition)
        return [partition.topic_partition for partition in offline]

    # Configs.

    def reconfigure(self, topics: Iterable[str] | None = None) -> None:
        """Apply changed configs of these topics, or of all."""
        for topic in list(self._by_topic) if topics is None else topics:
            for partition in self._by_topic.get(topic, {}).values():
                config, partition.min_isr = self._config_of(topic)
                partition.log.configure(config)
                self.complete_delayed_requests(partition)
