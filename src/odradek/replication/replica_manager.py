"""The partitions of this broker: lookup, requests of the controller, followers' fetches, delayed requests.

Owns the purgatories: every change of a partition made here completes the delayed requests it satisfies.
Rules of a single partition are in ``Partition``.

Requests of the controller are applied one at a time, in the order of arrival: opening logs awaits, and a
later request must not overtake an earlier one. A controller with a lower epoch than the last one has been
replaced.

A partition whose log cannot be used is offline: it is not found, and requests fail with
KAFKA_STORAGE_ERROR (see ``PartitionLogs``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

from odradek.cluster.metadata_cache import MetadataCache
from odradek.cluster.metadata_update import convert_update
from odradek.log.log_config import LogConfig
from odradek.log.log_directory import LogDirectory
from odradek.log.log_manager import LogManager
from odradek.model.errors import BrokerError, ErrorCode, StorageError
from odradek.model.ids import NO_LEADER_EPOCH, ZERO_TOPIC_ID, TopicId, TopicPartition
from odradek.ports.clock import Clock
from odradek.ports.workers import Workers
from odradek.replication.alter_log_dirs import AlterLogDirs, CleaningPause, NoCleaning
from odradek.replication.alter_log_dirs_throttle import AlterLogDirsLimits
from odradek.replication.alter_partition_manager import AlterPartitionManager
from odradek.replication.append_queue import AppendQueue, QueuedAppend, Source
from odradek.replication.control_requests import (
    ControlResult,
    MetadataChange,
    RequestedRole,
    RequestedStop,
    decide_role,
    is_stop_fenced,
    requested_roles,
    requested_stops,
)
from odradek.replication.follower import Follower
from odradek.replication.leader import IsrChange, IsrChangeOutcome, IsrChangeResult, Leader
from odradek.replication.partition import DEBUGGING_CONSUMER_ID, Partition
from odradek.replication.partition_logs import PartitionLogs
from odradek.replication.pending_flushes import FlushCallback, PendingFlushes
from odradek.replication.replica_selector import ReplicaSelector, ReplicaView
from odradek.telemetry import events
from odradek.timers.purgatory import DelayedOperation, DelayedOperationPurgatory
from odradek.timers.timing_wheel import TimingWheel
from odradek.wire.messages.leader_and_isr import LeaderAndIsrRequest
from odradek.wire.messages.stop_replica import StopReplicaRequest
from odradek.wire.messages.update_metadata import UpdateMetadataRequest

# Logs created concurrently: their directories are synced together, and one large topic does not occupy all
# threads.
CONCURRENT_LOG_CREATIONS_MAX = 32

log = events.logger("replica_manager")


class FetcherManager(Protocol):
    """The fetchers that copy the logs of followed partitions.

    Adding a partition again replaces its ``Follower``; with the same one only its topic id changes.
    """

    def add_partitions(
        self, partitions: Mapping[TopicPartition, Follower], topic_ids: Mapping[TopicPartition, TopicId]
    ) -> None: ...

    def remove_partitions(self, partitions: Iterable[TopicPartition]) -> None: ...


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
        self.controller_epoch = 0
        """Epoch of the last controller that sent a request."""
        self.fetcher_manager: FetcherManager | None = None
        """None if this broker is the only one."""
        self.alter_partition_manager: AlterPartitionManager | None = None
        """None if this broker is the only one."""
        self.load_topic_configs: Callable[[Collection[str]], Awaitable[None]] | None = None
        """Reads the configs of topics from the store; None if all topics are created by this broker."""
        self.replica_selector: ReplicaSelector | None = None
        """Selection of the replica that a consumer reads; None for the leader."""
        self._control_lock = asyncio.Lock()
        self._topics: dict[str, dict[int, Partition]] = {}
        self._produces = DelayedOperationPurgatory("produce", wheel)
        self._fetches = DelayedOperationPurgatory("fetch", wheel)
        self._deletes = DelayedOperationPurgatory("delete_records", wheel)
        self._flushes = PendingFlushes(self._on_flushed)
        self._appends = AppendQueue(workers, clock)
        self.leadership_observers: list[Callable[[Partition], None]] = []
        """Called when this broker becomes leader of a partition or ceases to be, before delayed requests."""
        self.metadata_observers: list[Callable[[MetadataChange], None]] = []
        """Called after each update of the metadata cache."""
        self.alter_log_dirs = AlterLogDirs(
            log_manager,
            self.get_partition,
            self.partition_error,
            clock,
            alter_log_dirs_limits,
            cleaning or NoCleaning(),
        )
        self._logs = PartitionLogs(log_manager, self.alter_log_dirs, config_of, clock)

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
        brokers = self._metadata_cache.brokers

        def rack_of(broker_id: int) -> str | None:
            broker = brokers.get(broker_id)
            return None if broker is None or listener not in broker.endpoints else broker.rack

        own = ReplicaView(self._broker_id, rack_of(self._broker_id), partition.log.log_end_offset, 0)
        followers = [
            ReplicaView(broker_id, rack_of(broker_id), replica.log_end_offset, replica.last_caught_up_ms)
            for broker_id, replica in leader.readable_replicas(fetch_offset)
        ]
        selected = select(client_rack, own, followers)
        return None if selected is own else selected.broker_id

    # Delayed requests.

    def delay_produce(
        self, operation: DelayedOperation, partitions: Sequence[Partition], timeout_ms: int
    ) -> None:
        self._delay(self._produces, operation, partitions, timeout_ms)

    def delay_fetch(
        self, operation: DelayedOperation, partitions: Sequence[Partition], timeout_ms: int
    ) -> None:
        self._delay(self._fetches, operation, partitions, timeout_ms)

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
        partitions: Sequence[Partition],
        timeout_ms: int,
    ) -> None:
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        if not purgatory.try_complete_else_watch(operation, partitions, deadline_ms):
            self._arm(deadline_ms)

    # Followers and the ISR.

    def record_follower_fetch(
        self, partition: Partition, broker_id: int, fetch_offset: int, log_start_offset: int
    ) -> None:
        """Record a follower's fetch after a successful read without a diverging epoch.

        The follower may join the ISR, and the high watermark may move: that completes delayed requests.
        """
        partition.record_follower_fetch(broker_id, fetch_offset, log_start_offset)
        if self.alter_partition_manager is not None:
            self._submit_isr_change(partition, partition.propose_isr_expansion(broker_id))
        if partition.advance_high_watermark():
            self.complete_delayed_requests(partition)
        elif self._deletes.delayed:
            self._deletes.check_and_complete(partition)  # the follower's log start offset may have moved

    async def shrink_isrs(self) -> None:
        """Propose to remove lagging followers from ISRs. Call every half ``replica.lag.time.max.ms``."""
        for partition in self:
            if partition.leader_state is not None and partition.leader_state.has_followers:
                self._submit_isr_change(partition, partition.propose_isr_shrink())

    def _submit_isr_change(self, partition: Partition, change: IsrChange | None) -> None:
        if change is not None and self.alter_partition_manager is not None:
            self.alter_partition_manager.submit(
                partition.topic_partition,
                partition.topic_id,
                change,
                partial(self._on_isr_change_result, partition, change),
            )

    def _on_isr_change_result(self, partition: Partition, change: IsrChange, result: IsrChangeResult) -> None:
        outcome = partition.complete_isr_change(change, result)
        if outcome is IsrChangeOutcome.COMMITTED:
            log.info("isr_changed", partition=partition.topic_partition, isr=result.isr)
            if partition.advance_high_watermark():
                self.complete_delayed_requests(partition)
        elif outcome is IsrChangeOutcome.RETRY:
            self._submit_isr_change(partition, change)
        elif result.error:
            log.warning(
                "isr_not_changed",
                partition=partition.topic_partition,
                isr=change.isr,
                error=result.error.name,
                outcome=outcome.value,
            )

    # Requests of the controller.

    async def become_leader_or_follower(self, request: LeaderAndIsrRequest) -> ControlResult:
        """Apply a LeaderAndIsr request. Partitions that it does not name stay as they are."""
        async with self._control_lock:
            if not self._accept_controller(request.controller_id, request.controller_epoch):
                return ControlResult(ErrorCode.STALE_CONTROLLER_EPOCH, {})
            errors: dict[TopicPartition, ErrorCode] = {}
            accepted: list[RequestedRole] = []
            topic_id_updates: dict[TopicPartition, TopicId] = {}
            for requested in requested_roles(request):
                self._check_role(requested, errors, accepted, topic_id_updates)
            # Leaders first, as in Kafka: they must not be fetched any more when they begin to append.
            accepted.sort(key=lambda requested: requested.state.leader != self._broker_id)
            self._remove_fetchers(
                requested.topic_partition
                for requested in accepted
                if requested.state.leader == self._broker_id
            )
            await self._load_configs(accepted)
            limit = asyncio.Semaphore(CONCURRENT_LOG_CREATIONS_MAX)
            results = await asyncio.gather(
                *(self._apply_role(requested, errors, limit) for requested in accepted),
                return_exceptions=True,
            )
            for failure in filter(None, results):  # only once none of them runs any more
                raise failure
            topic_ids = {requested.topic_partition: requested.topic_id for requested in accepted}
            self._restart_fetchers({**topic_ids, **topic_id_updates})
            return ControlResult(ErrorCode.NONE, errors)

    async def _load_configs(self, accepted: Sequence[RequestedRole]) -> None:
        """Read the configs of topics without a replica here: no notification tells of a new topic's."""
        if self.load_topic_configs is not None:
            topics = {requested.topic_partition.topic for requested in accepted} - self._topics.keys()
            if topics:
                await self.load_topic_configs(topics)

    def _accept_controller(self, controller_id: int, controller_epoch: int) -> bool:
        if controller_epoch < self.controller_epoch:
            log.warning(
                "outdated_controller",
                controller=controller_id,
                epoch=controller_epoch,
                latest_epoch=self.controller_epoch,
            )
            return False
        self.controller_epoch = controller_epoch
        return True

    def _check_role(
        self,
        requested: RequestedRole,
        errors: dict[TopicPartition, ErrorCode],
        accepted: list[RequestedRole],
        topic_id_updates: dict[TopicPartition, TopicId],
    ) -> None:
        """Decide about one partition, and note an error or what is to be done."""
        topic_partition = requested.topic_partition
        if topic_partition in self._logs.offline:
            errors[topic_partition] = ErrorCode.KAFKA_STORAGE_ERROR
            return
        partition = self.get_partition(*topic_partition)
        decision = decide_role(
            requested,
            self._broker_id,
            NO_LEADER_EPOCH if partition is None else partition.leader_epoch,
            ZERO_TOPIC_ID if partition is None else partition.topic_id,
        )
        errors[topic_partition] = decision.error
        if decision.applies:
            accepted.append(requested)
        elif partition is not None and decision.assigns_topic_id:
            try:
                partition.assign_topic_id(requested.topic_id)
            except StorageError:
                errors[topic_partition] = ErrorCode.KAFKA_STORAGE_ERROR
        if decision.updates_fetcher:
            topic_id_updates[topic_partition] = requested.topic_id

    async def _apply_role(
        self, requested: RequestedRole, errors: dict[TopicPartition, ErrorCode], limit: asyncio.Semaphore
    ) -> None:
        topic_partition, topic_id, state = requested
        async with limit:
            partition = self.get_partition(*topic_partition)
            if partition is None:
                try:
                    partition = await self._open(topic_partition, topic_id, is_new=state.is_new)
                except (StorageError, BrokerError) as error:
                    log.error("log_open_failed", partition=topic_partition, reason=str(error))
                    code = ErrorCode.KAFKA_STORAGE_ERROR if isinstance(error, StorageError) else error.code
                    errors[topic_partition] = code
                    if code is ErrorCode.KAFKA_STORAGE_ERROR:
                        self._logs.take_offline(topic_partition, topic_id, is_new=state.is_new)
                    return
        # No await from here on: the directory of the log must not fail before the partition is found.
        if state.leader == self._broker_id:
            has_changed = partition.make_leader(state, topic_id)
        elif self._metadata_cache.is_alive(state.leader):
            has_changed = partition.make_follower(state, topic_id)
        else:
            # As in Kafka, only the log is created; the controller announces brokers first.
            log.error("leader_unavailable", partition=topic_partition, leader=state.leader)
            has_changed = False
        was_opened = self.get_partition(*topic_partition) is None
        self._topics.setdefault(topic_partition.topic, {})[topic_partition.partition] = partition
        if was_opened:
            self.alter_log_dirs.resume(partition)
        if has_changed:
            self._leadership_changed(partition)

    def _remove_fetchers(self, topic_partitions: Iterable[TopicPartition]) -> None:
        if self.fetcher_manager is not None:
            self.fetcher_manager.remove_partitions(topic_partitions)

    def _restart_fetchers(self, topic_ids: Mapping[TopicPartition, TopicId]) -> None:
        """Fetch those of these partitions that have a follower here, from the leader they have now."""
        if self.fetcher_manager is None:
            return
        followers = {}
        for topic_partition in topic_ids:
            partition = self.get_partition(*topic_partition)
            if partition is not None and partition.follower_state is not None:
                followers[topic_partition] = partition.follower_state
        if followers:
            self.fetcher_manager.add_partitions(followers, {each: topic_ids[each] for each in followers})

    async def update_metadata(self, request: UpdateMetadataRequest) -> MetadataChange:
        """Apply an UpdateMetadata request to the metadata cache."""
        async with self._control_lock:
            if not self._accept_controller(request.controller_id, request.controller_epoch):
                return MetadataChange(ErrorCode.STALE_CONTROLLER_EPOCH)
            update, deleted_partitions = convert_update(request, self._metadata_cache)
            topics = self._metadata_cache.apply(update)
            deleted_topics = [topic for topic in topics if self._metadata_cache.topic(topic) is None]
            change = MetadataChange(ErrorCode.NONE, topics, deleted_topics, deleted_partitions)
            for observer in self.metadata_observers:
                observer(change)
            if self._deletes.delayed:
                self._check_deletes()  # replicas on dead brokers do not count
            return change

    def _check_deletes(self) -> None:
        for partition in list(self):
            self._deletes.check_and_complete(partition)

    async def stop_replicas(self, request: StopReplicaRequest) -> ControlResult:
        """Apply a StopReplica request: stop fetching, and delete logs where it says so.

        An offline partition is not deleted: its files are still there.
        """
        async with self._control_lock:
            if not self._accept_controller(request.controller_id, request.controller_epoch):
                return ControlResult(ErrorCode.STALE_CONTROLLER_EPOCH, {})
            errors: dict[TopicPartition, ErrorCode] = {}
            accepted = []
            for requested in requested_stops(request):
                errors[requested.topic_partition] = error = self._check_stop(requested)
                if error is ErrorCode.NONE:
                    accepted.append(requested)
            self._remove_fetchers(requested.topic_partition for requested in accepted)
            for requested in accepted:
                errors[requested.topic_partition] = self._stop_replica(requested)
            return ControlResult(ErrorCode.NONE, errors)

    def _check_stop(self, requested: RequestedStop) -> ErrorCode:
        topic_partition = requested.topic_partition
        if requested.delete:
            self._logs.give_up_retry(topic_partition)
        if topic_partition in self._logs.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        partition = self.get_partition(*topic_partition)
        if partition is not None and is_stop_fenced(requested.leader_epoch, partition.leader_epoch):
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.NONE

    def _stop_replica(self, requested: RequestedStop) -> ErrorCode:
        topic_partition = requested.topic_partition
        partition = self.get_partition(*topic_partition)
        if not requested.delete:
            if partition is not None:
                self.complete_delayed_requests(partition)
            return ErrorCode.NONE
        if partition is not None:
            self._remove_partition(topic_partition)
            partition.delete()
        # Also without a partition: the topic may have been deleted while this broker was down.
        error = self._logs.delete(topic_partition)
        if partition is not None:
            self._leadership_changed(partition)
        return error

    def _remove_partition(self, topic_partition: TopicPartition) -> None:
        topic, number = topic_partition
        del self._topics[topic][number]
        if not self._topics[topic]:
            del self._topics[topic]

    async def _open(self, topic_partition: TopicPartition, topic_id: TopicId, *, is_new: bool) -> Partition:
        partition_log = await self._logs.open(topic_partition, topic_id, is_new=is_new)
        return Partition(
            topic_partition,
            topic_id if topic_id != ZERO_TOPIC_ID else partition_log.topic_id or ZERO_TOPIC_ID,
            partition_log,
            self._broker_id,
            self._config_of(topic_partition.topic)[1],
            self._new_leader,
        )

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
        self._remove_fetchers(partition.topic_partition for partition in offline)
        for partition in offline:
            self._logs.offline.add(partition.topic_partition)
            self._remove_partition(partition.topic_partition)
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
