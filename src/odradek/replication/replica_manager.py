"""The partitions of this broker: found by topic and number, told to lead, to follow, to stop.

Owns the purgatories of produce and fetch requests: whoever changes a partition here pokes those that wait for
it. Rules of a single partition are the partition's.

A partition whose log cannot be used is offline: it is not found, and clients are told KAFKA_STORAGE_ERROR. If
its directory failed, no order brings it back before the next start. If its log could not be made, because
every disk was full, or not be opened while others could, that is tried again every now and then.
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
from odradek.replication.pending_flushes import Flushes, Told
from odradek.telemetry import events
from odradek.timers.purgatory import DelayedOperation, DelayedOperationPurgatory
from odradek.timers.timing_wheel import TimingWheel

# New logs made at the same time: their directories are synced together, and one large topic does not fill
# the threads that others need too.
CREATED_AT_ONCE_MAX = 32

log = events.logger("replicas")


class _Waiting(NamedTuple):
    """A partition that is offline for a while. One that had a log is never given an empty one instead."""

    topic_id: TopicId
    never_had_a_log: bool


class ReplicaManager:
    def __init__(
        self,
        broker_id: int,
        directories: LogManager,
        image: MetadataCache,
        config_of: Callable[[str], tuple[LogConfig, int]],
        clock: Clock,
        wheel: TimingWheel,
        arm: Callable[[int], None],
        lag_max_ms: Callable[[], int],
        workers: Workers,
        move_limits: Callable[[], AlterLogDirsLimits] = AlterLogDirsLimits,
        cleaning: CleaningPause | None = None,
    ) -> None:
        """``config_of`` gives a topic's settings and min.insync.replicas; ``arm`` is told of deadlines."""
        self._broker_id = broker_id
        self._directories = directories
        self._image = image
        self._config_of = config_of
        self._clock = clock
        self._arm = arm
        self._lag_max_ms = lag_max_ms
        self._topics: dict[str, dict[int, Partition]] = {}
        self._offline: set[TopicPartition] = set()
        self._waiting: dict[TopicPartition, _Waiting] = {}
        """Those of them whose logs may be made, or opened, after all."""
        self._produces = DelayedOperationPurgatory("produce", wheel)
        self._fetches = DelayedOperationPurgatory("fetch", wheel)
        self._flushes = Flushes(self._flushed)
        self._appends = AppendQueue(workers, clock)
        self.leadership_observers: list[Callable[[Partition], None]] = []
        """Told of a partition that this broker may lead from now on, or no longer, before who waits is."""
        self.alter_log_dirs = AlterLogDirs(
            directories, self.find, self.partition_error, clock, move_limits, cleaning or NoCleaning()
        )

    def __iter__(self) -> Iterator[Partition]:
        for partitions in self._topics.values():
            yield from partitions.values()

    def __len__(self) -> int:
        return sum(map(len, self._topics.values()))

    # Finding.

    def find(self, topic: str | None, number: int) -> Partition | None:
        partitions = self._topics.get(topic)  # type: ignore[arg-type]
        return None if partitions is None else partitions.get(number)

    def get_leader_partition(self, topic: str, number: int) -> Partition:
        """The partition if this broker leads it; else the refusal that tells the client where to look."""
        partition = self.find(topic, number)
        if partition is None:
            raise self.partition_error(topic, number)
        if not partition.is_leader:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return partition

    def get_readable_partition(self, replica_id: int, topic: str, number: int) -> Partition:
        """The partition this reader may ask: the leader, or any replica for a tool that says it debugs."""
        partition = self.find(topic, number)
        if partition is not None and replica_id == DEBUGGING_CONSUMER_ID:
            return partition
        return self.get_leader_partition(topic, number)

    def partition_error(self, topic: str | None, number: int) -> BrokerError:
        """Why there is no such partition on this broker."""
        if topic is None:
            return BrokerError(ErrorCode.UNKNOWN_TOPIC_ID)
        if (topic, number) in self._offline:
            return BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {topic}-{number} cannot be used")
        if self._image.partition(topic, number) is None:
            return BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # Waiting.

    def delay_produce(
        self, operation: DelayedOperation, partitions: Sequence[Partition], timeout_ms: int
    ) -> None:
        self._delay(self._produces, operation, partitions, timeout_ms)

    def delay_fetch(
        self, operation: DelayedOperation, partitions: Sequence[Partition], timeout_ms: int
    ) -> None:
        self._delay(self._fetches, operation, partitions, timeout_ms)

    def appended(self, partition: Partition) -> None:
        """Records were appended, and the high watermark may have moved: wake who waits for that."""
        self._fetches.check_and_complete(partition)

    def queue_append(self, partition: Partition, source: Source, append: QueuedAppend) -> None:
        """Append once the records are validated, after all appends of this source that wait for that."""
        self._appends.add(partition, source, append)

    def must_queue_append(self, partition: Partition, source: Source) -> bool:
        """Return whether an append of this source must wait behind earlier ones of it."""
        return self._appends.has(partition, source)

    async def drain_appends(self) -> None:
        """For a stop: what was begun is appended and answered."""
        await self._appends.settle()

    def flush(self, partition: Partition, told: Told) -> None:
        """Flush a partition that awaits it, and tell of the end: nothing, or what failed."""
        self._flushes.ask(partition, told)

    async def retry_flushes(self) -> None:
        """Flush again what found no room for it: the high watermark waits."""
        self._flushes.retry()

    async def drain_flushes(self) -> None:
        """For a stop: logs are not closed while they are being flushed."""
        await self._flushes.settle()

    def _flushed(self, partition: Partition) -> None:
        partition.flushed(self._clock.monotonic_ms())
        self.changed(partition)

    def changed(self, partition: Partition) -> None:
        """The partition's leader, replicas or bounds changed: everyone who waits for it looks again."""
        self._produces.check_and_complete(partition)
        self._fetches.check_and_complete(partition)

    def _role_changed(self, partition: Partition) -> None:
        for observer in self.leadership_observers:
            observer(partition)
        self.changed(partition)

    def complete_all_delayed(self) -> None:
        """For a stop: nothing more will come, so answer those that wait with what there is."""
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

    # Orders of the controller.

    async def become_leader_or_follower(
        self,
        orders: Mapping[TopicPartition, tuple[TopicId, LeaderAndIsr]],
        new: Collection[TopicPartition] = (),
    ) -> list[TopicPartition]:
        """Lead and follow as told; give the partitions that are offline here.

        ``new`` ones never had a log anywhere, so that one may be begun though directories have failed.
        """
        limit = asyncio.Semaphore(CREATED_AT_ONCE_MAX)

        async def one(topic_partition: TopicPartition, topic_id: TopicId, order: LeaderAndIsr) -> None:
            async with limit:
                await self._obey_one(topic_partition, topic_id, order, is_new=topic_partition in new)

        await asyncio.gather(*(one(tp, topic_id, order) for tp, (topic_id, order) in orders.items()))
        return [topic_partition for topic_partition in orders if topic_partition in self._offline]

    async def _obey_one(
        self, topic_partition: TopicPartition, topic_id: TopicId, order: LeaderAndIsr, *, is_new: bool
    ) -> None:
        if topic_partition in self._offline:
            return
        partition = self.find(*topic_partition)
        if partition is None:
            try:
                partition = await self._open(topic_partition, topic_id, is_new=is_new)
            except (StorageError, BrokerError) as broken:
                log.error("replica_failed", partition=topic_partition, reason=str(broken))
                if isinstance(broken, StorageError) or broken.code is ErrorCode.KAFKA_STORAGE_ERROR:
                    self._put_off(topic_partition, topic_id, is_new=is_new)
                return
        if order.leader == self._broker_id:
            progress = IsrState(self._broker_id, self._lag_max_ms(), self._image.is_alive)
            partition.lead(order, progress, self._clock.monotonic_ms())
        else:
            partition.follow(order)
        is_opened = self.find(*topic_partition) is None
        self._topics.setdefault(topic_partition.topic, {})[topic_partition.partition] = partition
        if is_opened:
            self.alter_log_dirs.resume(partition)
        self._role_changed(partition)

    def _put_off(self, topic_partition: TopicPartition, topic_id: TopicId, *, is_new: bool) -> None:
        """Take a partition offline whose log cannot be had now, and remember what may help later."""
        self._offline.add(topic_partition)
        directories = self._directories
        has_log = directories.find(topic_partition) or directories.find_unusable(topic_partition)
        if has_log or is_new or not directories.failed:
            self._waiting[topic_partition] = _Waiting(topic_id, never_had_a_log=not has_log)

    async def retry_offline_partitions(self) -> list[TopicPartition]:
        """Make or open the logs of partitions that wait for that; give those that can be led now."""
        placed = []
        for topic_partition, waiting in list(self._waiting.items()):
            try:
                is_placed = await self._place(topic_partition, waiting)
            except StorageError:
                break  # as full as before
            except BrokerError:
                continue
            if topic_partition not in self._waiting:  # deleted meanwhile
                self._delete_log(topic_partition)
            elif is_placed:
                del self._waiting[topic_partition]
                self._offline.discard(topic_partition)
                placed.append(topic_partition)
        return placed

    async def _place(self, topic_partition: TopicPartition, waiting: _Waiting) -> bool:
        """Have a log of this partition that can be used; give whether there is one."""
        holder = self._directories.find_unusable(topic_partition)
        if holder is not None:
            return await holder.reopen(topic_partition)
        found = self._directories.find(topic_partition)
        if found is not None:
            try:
                found[1].assign_topic_id(waiting.topic_id)
            except StorageError:
                return False
            return True
        if not waiting.never_had_a_log:
            return False  # its directory has failed since
        config, _ = self._config_of(topic_partition.topic)
        await self._directories.create(topic_partition, config, waiting.topic_id, is_new=True)
        return True

    async def _open(self, topic_partition: TopicPartition, topic_id: TopicId, *, is_new: bool) -> Partition:
        config, min_isr = self._config_of(topic_partition.topic)
        found = self._existing(topic_partition)
        if found is None:
            found = await self._directories.create(
                topic_partition,
                config,
                topic_id,
                is_new=is_new,
                preferred=self.alter_log_dirs.take_preferred(topic_partition),
            )
        else:
            found.assign_topic_id(topic_id)
            found.configure(config)
        return Partition(topic_partition, topic_id, found, self._broker_id, min_isr)

    def _existing(self, topic_partition: TopicPartition) -> Log | None:
        place = self._directories.find(topic_partition)
        if place is None:
            return None
        directory, found = place
        checkpointed = min(directory.high_watermarks.get(topic_partition, 0), found.log_end_offset)
        found.high_watermark = max(found.high_watermark, checkpointed)
        return found

    def remove(self, topic_partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Stop these replicas and give up their logs; those that wait for them are told at once.

        Gives those that are gone. One that is offline is not: its files are still there.
        """
        removed = []
        for topic_partition in topic_partitions:
            waiting = self._waiting.get(topic_partition)
            if waiting is not None and self._directories.find_unusable(topic_partition) is None:
                del self._waiting[topic_partition]
                self._offline.discard(topic_partition)
                if not waiting.never_had_a_log:
                    self._delete_log(topic_partition)
            if topic_partition in self._offline:
                continue
            partition = self._topics.get(topic_partition.topic, {}).pop(topic_partition.partition, None)
            if partition is not None:
                partition.retire()
                self._delete_log(topic_partition)
                self._role_changed(partition)
            if not self._topics.get(topic_partition.topic, True):
                del self._topics[topic_partition.topic]
            removed.append(topic_partition)
        return removed

    def _delete_log(self, topic_partition: TopicPartition) -> None:
        self.alter_log_dirs.drop(
            topic_partition
        )  # first: left alone, it would be taken for the partition's log
        place = self._directories.find(topic_partition)
        if place is not None:
            try:
                place[0].delete(topic_partition, self._clock.monotonic_ms())
            except (StorageError, BrokerError) as broken:
                log.error("log_deletion_failed", partition=topic_partition, reason=str(broken))

    # Failures.

    def handle_log_dir_failure(self, directory: LogDirectory) -> list[TopicPartition]:
        """Stop serving what is in a failed directory, tell those that wait for it, and give what it was."""
        self.alter_log_dirs.forget_directory(directory)
        lost = [partition for partition in self if directory.get(partition.topic_partition) is partition.log]
        for partition in lost:
            topic, number = partition.topic_partition
            self._offline.add(partition.topic_partition)
            del self._topics[topic][number]
            if not self._topics[topic]:
                del self._topics[topic]
            partition.fail()
            self._role_changed(partition)
        return [partition.topic_partition for partition in lost]

    # Settings.

    def reconfigure(self, topics: Iterable[str] | None = None) -> None:
        """Take new settings over, for some topics or for all."""
        for topic in list(self._topics) if topics is None else topics:
            for partition in self._topics.get(topic, {}).values():
                config, partition.min_isr = self._config_of(topic)
                partition.log.configure(config)
                self.changed(partition)
