"""State changes: the controller's requests (LeaderAndIsr, StopReplica, UpdateMetadata) on this broker.

They are applied one at a time, in the order of arrival: opening logs awaits, and a later request must not
overtake an earlier one. A controller with a lower epoch than the last one has been replaced. Decisions about
a single partition are in ``control_requests``, its roles in ``Partition``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol

from odradek.cluster.metadata_cache import MetadataCache, MetadataUpdate, TopicMetadata
from odradek.cluster.metadata_update import convert_update
from odradek.model.errors import BrokerError, ErrorCode, StorageError
from odradek.model.ids import NO_LEADER, NO_LEADER_EPOCH, ZERO_TOPIC_ID, TopicId, TopicPartition
from odradek.model.uuids import uuid_text
from odradek.replication.control_requests import (
    ControlResult,
    MetadataChange,
    MetadataSource,
    RequestedRole,
    RequestedStop,
    check_partition_name,
    decide_role,
    is_stop_fenced,
    requested_roles,
    requested_stops,
)
from odradek.replication.follower import Follower
from odradek.replication.hosted_partitions import HostedPartitions
from odradek.replication.leader import Leader
from odradek.replication.log_dirs.alter_log_dirs import AlterLogDirs
from odradek.replication.partition import Partition
from odradek.replication.partition_logs import PartitionLogs
from odradek.telemetry import events
from odradek.timers.turns import in_turns
from odradek.wire.messages.leader_and_isr import LeaderAndIsrRequest
from odradek.wire.messages.stop_replica import StopReplicaRequest
from odradek.wire.messages.update_metadata import UpdateMetadataRequest

CONCURRENT_LOG_CREATIONS_MAX: Final = 256
"""Logs created concurrently: they are synced together."""

log = events.logger("replica_manager")


class FetcherManager(Protocol):
    """The fetchers that copy the logs of followed partitions.

    Adding a partition again replaces its ``Follower``; with the same one only its topic id changes.
    """

    def add_partitions(
        self, partitions: Mapping[TopicPartition, Follower], topic_ids: Mapping[TopicPartition, TopicId]
    ) -> None: ...

    def remove_partitions(self, partitions: Iterable[TopicPartition]) -> None: ...

    def refresh(self, topic_partition: TopicPartition) -> None: ...


class StateChanges:
    """Applies state changes to the partitions of this broker, and to its metadata cache."""

    def __init__(
        self,
        broker_id: int,
        partitions: HostedPartitions,
        logs: PartitionLogs,
        alter_log_dirs: AlterLogDirs,
        metadata_cache: MetadataCache,
        new_leader: Callable[[], Leader],
        on_leadership_changed: Callable[[Partition], None],
        complete_delayed_requests: Callable[[Partition], None],
    ) -> None:
        """``on_leadership_changed`` is called after each change of a partition's role or leader epoch."""
        self._broker_id = broker_id
        self._partitions = partitions
        self._logs = logs
        self._alter_log_dirs = alter_log_dirs
        self._metadata_cache = metadata_cache
        self._new_leader = new_leader
        self._on_leadership_changed = on_leadership_changed
        self._complete_delayed_requests = complete_delayed_requests
        self._lock = asyncio.Lock()
        self.controller_epoch = 0
        """Epoch of the last controller that sent a request."""
        self.fetcher_manager: FetcherManager | None = None
        """None if this broker is the only one."""
        self.load_topic_configs: Callable[[Collection[str]], Awaitable[None]] | None = None
        """Reads the configs of topics from the store; None if all topics are created by this broker."""
        self.metadata_observers: list[Callable[[MetadataChange], None]] = []
        """Called after each update of the metadata cache."""

    async def become_leader_or_follower(self, request: LeaderAndIsrRequest) -> ControlResult:
        """Apply a LeaderAndIsr request. Partitions that it does not name stay as they are."""
        async with self._lock:
            if not self._accept_controller(request.controller_id, request.controller_epoch):
                return ControlResult(ErrorCode.STALE_CONTROLLER_EPOCH, {})
            errors: dict[TopicPartition, ErrorCode] = {}
            accepted: list[RequestedRole] = []
            topic_id_updates: dict[TopicPartition, TopicId] = {}
            # As in Kafka, the last state counts of a partition that is named twice.
            requested = {each.topic_partition: each for each in requested_roles(request)}.values()
            async for turn in in_turns(requested):
                for each in turn:
                    self._check_role(each, errors, accepted, topic_id_updates)
            # Leaders first, as in Kafka: they must not be fetched any more when they begin to append.
            accepted.sort(key=lambda requested: requested.state.leader != self._broker_id)
            self.remove_fetchers(
                requested.topic_partition
                for requested in accepted
                if requested.state.leader == self._broker_id
            )
            await self._load_configs(accepted)
            await self._apply_roles(accepted, errors)
            topic_ids = {requested.topic_partition: requested.topic_id for requested in accepted}
            await self._restart_fetchers({**topic_ids, **topic_id_updates})
            return ControlResult(ErrorCode.NONE, errors)

    async def _load_configs(self, accepted: Sequence[RequestedRole]) -> None:
        """Read the configs of topics without a replica here: no notification tells of a new topic's."""
        if self.load_topic_configs is not None:
            topics = {
                requested.topic_partition.topic for requested in accepted
            } - self._partitions.by_topic.keys()
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
        partition = self._partitions.get(*topic_partition)
        if partition is None and (error := check_partition_name(topic_partition)):
            errors[topic_partition] = error
            return
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

    async def _apply_roles(
        self, accepted: Sequence[RequestedRole], errors: dict[TopicPartition, ErrorCode]
    ) -> None:
        """Apply the roles of partitions with a log, then create the logs of the others, many at a time."""
        without_log: list[RequestedRole] = []
        async for turn in in_turns(accepted):
            for requested in turn:
                topic_partition = requested.topic_partition
                partition = self._partitions.get(*topic_partition)
                if partition is not None:
                    self._apply_role(partition, requested)
                elif topic_partition in self._logs.offline:  # its directory has failed since the check
                    errors[topic_partition] = ErrorCode.KAFKA_STORAGE_ERROR
                elif self._logs.has_log(topic_partition):
                    await self._open_and_apply(requested, errors)
                else:
                    without_log.append(requested)
        limit = asyncio.Semaphore(CONCURRENT_LOG_CREATIONS_MAX)

        async def create(requested: RequestedRole) -> None:
            async with limit:
                await self._open_and_apply(requested, errors)

        results = await asyncio.gather(*map(create, without_log), return_exceptions=True)
        for failure in filter(None, results):  # only once none of them runs any more
            raise failure

    async def _open_and_apply(
        self, requested: RequestedRole, errors: dict[TopicPartition, ErrorCode]
    ) -> None:
        topic_partition, topic_id, state = requested
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
        self._apply_role(partition, requested, was_opened=True)

    def _apply_role(
        self, partition: Partition, requested: RequestedRole, *, was_opened: bool = False
    ) -> None:
        """Make a partition leader or follower, and host it from now on."""
        topic_partition, topic_id, state = requested
        if state.leader == self._broker_id:
            has_changed = partition.make_leader(state, topic_id)
        elif self._metadata_cache.is_alive(state.leader):
            has_changed = partition.make_follower(state, topic_id)
        else:
            # As in Kafka, only the log is created; the controller announces brokers first.
            if state.leader != NO_LEADER:  # else an election follows, or fails
                log.error("leader_unavailable", partition=topic_partition, leader=state.leader)
            has_changed = False
        self._partitions.add(partition)
        if was_opened:
            self._alter_log_dirs.resume(partition)
        if has_changed:
            if log.enabled(logging.DEBUG):
                log.debug(
                    "leader_changed",
                    partition=topic_partition,
                    topic_id=uuid_text(topic_id),
                    leader=state.leader,
                    leader_epoch=state.leader_epoch,
                )
            self._on_leadership_changed(partition)

    def remove_fetchers(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching these partitions; responses that are under way are dropped."""
        if self.fetcher_manager is not None:
            self.fetcher_manager.remove_partitions(topic_partitions)

    async def _restart_fetchers(self, topic_ids: Mapping[TopicPartition, TopicId]) -> None:
        """Fetch those of these partitions that have a follower here, from the leader they have now."""
        if self.fetcher_manager is None:
            return
        async for turn in in_turns(topic_ids):
            followers = {}
            for topic_partition in turn:
                partition = self._partitions.get(*topic_partition)
                if partition is not None and partition.follower_state is not None:
                    followers[topic_partition] = partition.follower_state
            if followers:
                self.fetcher_manager.add_partitions(followers, {each: topic_ids[each] for each in followers})

    async def update_metadata(self, request: UpdateMetadataRequest) -> MetadataChange:
        """Apply an UpdateMetadata request to the metadata cache."""
        async with self._lock:
            if not self._accept_controller(request.controller_id, request.controller_epoch):
                return MetadataChange(ErrorCode.STALE_CONTROLLER_EPOCH)
            update, deleted_partitions = convert_update(request, self._metadata_cache)
            topics = self._metadata_cache.apply(update)
            for topic in topics:
                self._resign_reassigned(topic)
            deleted_topics = [topic for topic in topics if self._metadata_cache.topic(topic) is None]
            source = MetadataSource(request.controller_epoch, request.broker_epoch)
            change = MetadataChange(ErrorCode.NONE, topics, deleted_topics, deleted_partitions, source)
            self._report_metadata_change(change)
            return change

    def _resign_reassigned(self, topic: str) -> None:
        """Stop leading partitions that were reassigned away from this broker in a later leader epoch.

        StopReplica comes too, unless the controller fails before: the next one sends it to replicas only.
        Kafka's broker then leads on for itself. The log stays, as there: no request says to delete it.
        """
        metadata = self._metadata_cache.topic(topic)
        if metadata is None:
            return
        for number, partition in self._partitions.by_topic.get(topic, {}).items():
            known = metadata.partitions.get(number)
            if (
                known is not None
                and partition.is_leader
                and partition.topic_id == metadata.topic_id
                and partition.leader_epoch < known.leader_epoch
                and self._broker_id not in known.replicas
            ):
                log.info("reassigned_away", partition=partition.topic_partition, leader=known.leader)
                partition.delete()
                self._on_leadership_changed(partition)

    def forget_topics(self, topics: Iterable[TopicMetadata]) -> None:
        """Remove deleted topics from the metadata cache, except those that a request has changed since."""
        deleted = [topic for topic in topics if self._metadata_cache.topic(topic.name) is topic]
        if deleted:
            names = [topic.name for topic in deleted]
            log.info("deleted_topics_forgotten", topics=",".join(names))
            partitions = [
                TopicPartition(topic.name, number) for topic in deleted for number in topic.partitions
            ]
            self._metadata_cache.apply(MetadataUpdate(topics=dict.fromkeys(names)))
            self._report_metadata_change(MetadataChange(ErrorCode.NONE, names, names, partitions))

    def _report_metadata_change(self, change: MetadataChange) -> None:
        for observer in self.metadata_observers:
            observer(change)

    async def stop_replicas(self, request: StopReplicaRequest) -> ControlResult:
        """Apply a StopReplica request: stop fetching, and delete logs where it says so.

        An offline partition is not deleted: its files are still there.
        """
        async with self._lock:
            if not self._accept_controller(request.controller_id, request.controller_epoch):
                return ControlResult(ErrorCode.STALE_CONTROLLER_EPOCH, {})
            errors: dict[TopicPartition, ErrorCode] = {}
            accepted = []
            for requested in requested_stops(request):
                errors[requested.topic_partition] = error = self._check_stop(requested)
                if error is ErrorCode.NONE:
                    accepted.append(requested)
            self.remove_fetchers(requested.topic_partition for requested in accepted)
            for requested in accepted:
                errors[requested.topic_partition] = self._stop_replica(requested)
            deleted = [requested.topic_partition for requested in accepted if requested.delete]
            if deleted and (sync_error := await self._logs.sync_deletes()):
                errors.update(dict.fromkeys(deleted, sync_error))
            return ControlResult(ErrorCode.NONE, errors)

    def _check_stop(self, requested: RequestedStop) -> ErrorCode:
        topic_partition = requested.topic_partition
        if requested.delete:
            self._logs.give_up_retry(topic_partition)
        if topic_partition in self._logs.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        partition = self._partitions.get(*topic_partition)
        if partition is not None and is_stop_fenced(requested.leader_epoch, partition.leader_epoch):
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.NONE

    def _stop_replica(self, requested: RequestedStop) -> ErrorCode:
        topic_partition = requested.topic_partition
        partition = self._partitions.get(*topic_partition)
        if not requested.delete:
            if partition is not None:
                self._complete_delayed_requests(partition)
            return ErrorCode.NONE
        if partition is not None:
            self._partitions.remove(topic_partition)
            partition.delete()
        # Also without a partition: the topic may have been deleted while this broker was down.
        error = self._logs.delete(topic_partition)
        if partition is not None:
            self._on_leadership_changed(partition)
        return error

    async def _open(self, topic_partition: TopicPartition, topic_id: TopicId, *, is_new: bool) -> Partition:
        partition_log = await self._logs.open(topic_partition, topic_id, is_new=is_new)
        return Partition(
            topic_partition,
            topic_id if topic_id != ZERO_TOPIC_ID else partition_log.topic_id or ZERO_TOPIC_ID,
            partition_log,
            self._broker_id,
            self._logs.min_isr_of(topic_partition.topic),
            self._new_leader,
        )
