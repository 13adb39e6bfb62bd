"""Runs a coordinator shard for each partition of an internal topic that this broker leads.

A load replays the log from its start to the log end offset at the time this broker became leader: a former
leader may have acknowledged more than the high watermark known here. Nothing is replayed before all in-sync
replicas have it, because another leader might not. That does not require min.insync.replicas of them: with
fewer, nothing can be written, but groups and transactions can be read. Commands are accepted once the load
has finished.

Role changes come in order, each with a higher leader epoch. One that comes during a load ends it: nothing
that was read for an earlier leadership is used.

Invariant: a partition has at most one shard here, and none that has not replayed the whole log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Generic

from odradek.coordinators.coordinator_context import (
    CoordinatorContext,
    CoordinatorEnvironment,
    CoordinatorState,
    S,
)
from odradek.coordinators.loader import read_chunk
from odradek.model.errors import BrokerError, ErrorCode, StorageError
from odradek.replication.partition import Partition
from odradek.telemetry import events

REPLAYED_AT_ONCE_MAX: Final = 100
"""Records replayed before the event loop runs other tasks: about a millisecond."""
LOAD_RETRY_MS: Final = 50
"""Delay before a load looks again for followers that lag, or for a log that could not be read."""
LONG_LOAD_MS: Final = 1_000
"""Loads that take longer delay clients noticeably, and are logged."""

log = events.logger("coordinators")


class CoordinatorRuntime(Generic[S]):
    """``make_shard`` returns an empty shard for a partition.

    A leader that gets a new leader epoch keeps its shard, unless ``reloads_in_new_epoch``: then it loads the
    partition again, as a new leader does.
    """

    def __init__(
        self,
        make_shard: Callable[[int], S],
        environment: CoordinatorEnvironment,
        *,
        reloads_in_new_epoch: bool = False,
    ) -> None:
        self._make_shard = make_shard
        self._environment = environment
        self._reloads_in_new_epoch = reloads_in_new_epoch
        self._is_running = False
        self._is_stopped = False
        self._coordinators: dict[int, CoordinatorContext[S]] = {}
        self._loads: dict[int, asyncio.Task[None]] = {}
        self._deferred_commands: dict[int, list[object]] = {}
        """Commands for all partitions that wait for a load to finish."""
        self._loading_since_ms = 0
        self._loaded_count = 0
        # One chunk of a log in memory at a time, however many partitions load at once.
        self._reading = asyncio.Semaphore(1)

    # Lifecycle.

    def start(self) -> None:
        """Accept commands. Partitions may have been loaded before."""
        self._is_running = True

    async def stop(self) -> None:
        """Unload all partitions, which replies to all waiting requests, and accept no more."""
        self._is_running, self._is_stopped = False, True
        loads = list(self._loads.values())
        for number in list(self._coordinators):
            self.unload(number)
        await asyncio.gather(*loads, return_exceptions=True)

    # Leadership.

    def load(self, partition: Partition) -> None:
        """Load a partition that this broker leads, unless it is loaded and its shard is kept."""
        number = partition.topic_partition.partition
        coordinator = self._coordinators.get(number)
        if self._is_stopped or (coordinator is not None and self._is_kept(coordinator, partition)):
            return
        self.unload(number)
        if not self._loads:
            self._loading_since_ms, self._loaded_count = self._environment.clock.monotonic_ms(), 0
        coordinator = CoordinatorContext(partition, self._make_shard(number), self._environment)
        self._coordinators[number] = coordinator
        self._loads[number] = asyncio.get_running_loop().create_task(self._load(number, coordinator))

    def _is_kept(self, coordinator: CoordinatorContext[S], partition: Partition) -> bool:
        is_same_epoch = partition.leader_epoch == coordinator.leader_epoch
        return coordinator.partition is partition and (is_same_epoch or not self._reloads_in_new_epoch)

    def unload(self, number: int) -> None:
        """Unload a partition that this broker does not lead, if it is loaded."""
        coordinator = self._coordinators.pop(number, None)
        if coordinator is None:
            return
        self._deferred_commands.pop(number, None)
        load = self._loads.pop(number, None)
        if load is not None:
            load.cancel()
        coordinator.close()
        log.debug("partition_unloaded", partition=coordinator.partition.topic_partition)

    # Commands and queries.

    def submit(self, number: int, command: object, reply: Callable[[Any], None]) -> None:
        """Handle a command; ``reply`` is called with the response once, now or later."""
        self._require(number).submit(command, reply)

    def submit_to_all(self, command: object) -> None:
        """Handle a command without a reply on all partitions; on those still loading, after the load."""
        for number, coordinator in list(self._coordinators.items()):
            if coordinator.state is CoordinatorState.LOADING:
                self._deferred_commands.setdefault(number, []).append(command)
            else:
                coordinator.submit_without_reply(command)

    def transaction_ended(self, number: int, producer_id: int, *, commits: bool, offset: int) -> None:
        """Note that a transaction marker was appended to a partition at this offset."""
        coordinator = self._coordinators.get(number)
        if coordinator is not None:
            coordinator.end_marker_appended(producer_id, commits=commits, offset=offset)

    def shard(self, number: int) -> S:
        """Return the shard of a partition, for queries."""
        return self._require(number).shard

    def shards(self) -> list[S]:
        """Return the shards of all active partitions."""
        return [each.shard for each in self._coordinators.values() if each.state is CoordinatorState.ACTIVE]

    @property
    def is_loading(self) -> bool:
        return any(each.state is CoordinatorState.LOADING for each in self._coordinators.values())

    async def wait_until_loaded(self, timeout_ms: int) -> bool:
        """Wait for the current loads to finish; return whether they did in time."""
        loads = list(self._loads.values())
        if loads:
            await asyncio.wait(loads, timeout=timeout_ms / 1000)
        return all(load.done() for load in loads)

    def _require(self, number: int) -> CoordinatorContext[S]:
        if not self._is_running:
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        coordinator = self._coordinators.get(number)
        if coordinator is None:
            raise BrokerError(ErrorCode.NOT_COORDINATOR)
        if coordinator.state is CoordinatorState.LOADING:
            raise BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return coordinator

    # Loading.

    async def _load(self, number: int, coordinator: CoordinatorContext[S]) -> None:
        """Load a partition. Runs as a task, which ``unload`` cancels."""
        started_ms = self._environment.clock.monotonic_ms()
        topic_partition = coordinator.partition.topic_partition
        try:
            await self._replay(coordinator)
            if self._coordinators.get(number) is not coordinator:
                return  # overtaken by a role change
            coordinator.activate()
            for command in self._deferred_commands.pop(number, ()):
                coordinator.submit_without_reply(command)
        except Exception as error:  # noqa: BLE001 - the edge of a task
            log.failure("load_failed", error, partition=topic_partition)
            return
        self._loads.pop(number, None)
        now_ms = self._environment.clock.monotonic_ms()
        log.debug("partition_loaded", partition=topic_partition, took_ms=now_ms - started_ms)
        self._loaded_count += 1
        took_ms = now_ms - self._loading_since_ms
        if not self._loads and took_ms >= LONG_LOAD_MS:
            # One line for all partitions that were loaded together: usually fifty.
            count = self._loaded_count
            log.info("partitions_loaded", topic=topic_partition.topic, partitions=count, took_ms=took_ms)

    async def _replay(self, coordinator: CoordinatorContext[S]) -> None:
        offset, end_offset = 0, coordinator.load_end_offset
        while True:
            async with self._reading:
                offset = await self._replay_replicated(coordinator, offset, end_offset)
            if offset >= end_offset:
                return
            await self._environment.clock.sleep_ms(LOAD_RETRY_MS)

    async def _replay_replicated(
        self, coordinator: CoordinatorContext[S], offset: int, end_offset: int
    ) -> int:
        """Replay what all in-sync replicas have; return the next offset, which is below ``end_offset`` if
        they lack some of it or the log could not be read."""
        partition = coordinator.partition
        while offset < (end := min(end_offset, partition.in_sync_end_offset)):
            bytes_max = self._environment.settings().load_bytes_max
            try:
                chunk = await read_chunk(partition, offset, end, bytes_max)
            except (OSError, StorageError, BrokerError) as error:
                log.warning("load_delayed", partition=partition.topic_partition, reason=str(error))
                return offset
            for fault in chunk.faults:
                log.error("batch_skipped", partition=partition.topic_partition, reason=fault)
            for count, item in enumerate(chunk.items, 1):
                coordinator.replay(item)
                if count % REPLAYED_AT_ONCE_MAX == 0:
                    await asyncio.sleep(0)
            offset = chunk.next_offset
        return offset
