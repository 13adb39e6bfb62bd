"""Hosts a shard for each partition of an internal topic that this broker leads: loads, serves, lets go.

A load applies what the log holds, from its start to where it ended when this broker became its leader, and
nothing before it is committed: a former leader may have acknowledged more than the high watermark known
here. Then commands are taken. What a shard and its partition do with each other is ``CoordinatorContext``'s.

Invariant: a partition has at most one shard here, and none that was not given all of its log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Generic

from odradek.coordinators.coordinator_context import (
    CoordinatorContext,
    CoordinatorEnvironment,
    CoordinatorState,
    M,
)
from odradek.coordinators.loader import read_chunk
from odradek.model.errors import BrokerError, ErrorCode, StorageError
from odradek.replication.partition import Partition
from odradek.telemetry import events

APPLIED_AT_ONCE_MAX: Final = 100
"""Entries applied before others get their turn: about a millisecond."""
LOOK_AGAIN_MS: Final = 50
"""How long a load waits for the high watermark, or for a log that could not be read, until it looks again."""
LONG_LOAD_MS: Final = 1_000
"""Loads that clients notice, because they wait for their coordinator, are logged."""

log = events.logger("coordinators")


class CoordinatorRuntime(Generic[M]):
    """``make_shard`` gives the empty shard of a partition."""

    def __init__(self, make_shard: Callable[[int], M], around: CoordinatorEnvironment) -> None:
        self._make_shard = make_shard
        self._around = around
        self._is_running = False
        self._is_stopped = False
        self._hosted: dict[int, CoordinatorContext[M]] = {}
        self._loads: dict[int, asyncio.Task[None]] = {}
        self._later: dict[int, list[Any]] = {}
        self._loading_since_ms = 0
        self._loaded_count = 0
        # One piece of a log in memory at a time, however many partitions come at once.
        self._reading = asyncio.Semaphore(1)

    # Life.

    def start(self) -> None:
        """Answer from here on. Partitions may have come before."""
        self._is_running = True

    async def stop(self) -> None:
        """Let go of all partitions, so that all who wait are answered, and take no more."""
        self._is_running, self._is_stopped = False, True
        loads = list(self._loads.values())
        for number in list(self._hosted):
            self.unload(number)
        await asyncio.gather(*loads, return_exceptions=True)

    # Roles.

    def load(self, partition: Partition) -> None:
        """This broker leads the partition: load it, unless that was done under an earlier epoch of its."""
        number = partition.topic_partition.partition
        hosted = self._hosted.get(number)
        if self._is_stopped or (hosted is not None and hosted.partition is partition):
            return
        self.unload(number)
        if not self._loads:
            self._loading_since_ms, self._loaded_count = self._around.clock.monotonic_ms(), 0
        hosted = self._hosted[number] = CoordinatorContext(partition, self._make_shard(number), self._around)
        self._loads[number] = asyncio.get_running_loop().create_task(self._load(number, hosted))

    def unload(self, number: int) -> None:
        """This broker no longer leads the partition, or never did."""
        hosted = self._hosted.pop(number, None)
        if hosted is None:
            return
        self._later.pop(number, None)
        load = self._loads.pop(number, None)
        if load is not None:
            load.cancel()
        hosted.leave()
        log.debug("partition_unloaded", partition=hosted.partition.topic_partition)

    # Commands and questions.

    def submit(self, number: int, command: Any, reply: Callable[[Any], None]) -> None:
        """Have a command judged; ``reply`` gets the answer, now or later, once."""
        self._require(number).submit(command, reply)

    def submit_to_all(self, command: Any) -> None:
        """Have all shards judge a command that nobody waits for; those that load, once they are loaded."""
        for number, hosted in list(self._hosted.items()):
            if hosted.state is CoordinatorState.LOADING:
                self._later.setdefault(number, []).append(command)
            else:
                hosted.tell(command)

    def transaction_ended(self, number: int, producer_id: int, *, commits: bool, offset: int) -> None:
        """A producer's marker was appended to the partition, at this offset."""
        hosted = self._hosted.get(number)
        if hosted is not None:
            hosted.ended(producer_id, commits=commits, offset=offset)

    def shard(self, number: int) -> M:
        """The shard of a partition, to be asked what changes nothing."""
        return self._require(number).shard

    def shards(self) -> list[M]:
        """All that serve."""
        return [one.shard for one in self._hosted.values() if one.state is CoordinatorState.ACTIVE]

    @property
    def is_loading(self) -> bool:
        return any(one.state is CoordinatorState.LOADING for one in self._hosted.values())

    async def wait_until_loaded(self, timeout_ms: int) -> bool:
        """Wait for the loads that are under way; give whether they ended in time."""
        loads = list(self._loads.values())
        if loads:
            await asyncio.wait(loads, timeout=timeout_ms / 1000)
        return all(load.done() for load in loads)

    def _require(self, number: int) -> CoordinatorContext[M]:
        if not self._is_running:
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        hosted = self._hosted.get(number)
        if hosted is None:
            raise BrokerError(ErrorCode.NOT_COORDINATOR)
        if hosted.state is CoordinatorState.LOADING:
            raise BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return hosted

    # Loading.

    async def _load(self, number: int, hosted: CoordinatorContext[M]) -> None:
        """Runs as a task, which ``unload`` cancels."""
        began_ms = self._around.clock.monotonic_ms()
        name = hosted.partition.topic_partition
        try:
            await self._replay(hosted)
            hosted.activate()
            for command in self._later.pop(number, ()):
                hosted.tell(command)
        except Exception as broken:  # noqa: BLE001 - the edge of a task
            log.failure("load_failed", broken, partition=name)
            return
        del self._loads[number]
        now_ms = self._around.clock.monotonic_ms()
        log.debug("partition_loaded", partition=name, took_ms=now_ms - began_ms)
        self._loaded_count += 1
        took_ms = now_ms - self._loading_since_ms
        if not self._loads and took_ms >= LONG_LOAD_MS:
            # One line for all partitions that came together, which are fifty at a time.
            log.info("partitions_loaded", topic=name.topic, partitions=self._loaded_count, took_ms=took_ms)

    async def _replay(self, hosted: CoordinatorContext[M]) -> None:
        offset, end_offset = 0, hosted.partition.log.log_end_offset
        while True:
            async with self._reading:
                offset = await self._read_on(hosted, offset, end_offset)
            if offset >= end_offset:
                return
            await self._around.clock.sleep_ms(LOOK_AGAIN_MS)

    async def _read_on(self, hosted: CoordinatorContext[M], offset: int, end_offset: int) -> int:
        """Apply what is committed; give where to go on, which is before the end if something hinders."""
        partition = hosted.partition
        while offset < (end := min(end_offset, partition.log.high_watermark)):
            bytes_max = self._around.settings().load_bytes_max
            try:
                piece = await read_chunk(partition, offset, end, bytes_max)
            except (OSError, StorageError, BrokerError) as failed:
                log.warning("load_delayed", partition=partition.topic_partition, reason=str(failed))
                return offset
            for fault in piece.faults:
                log.error("batch_skipped", partition=partition.topic_partition, reason=fault)
            for count, told in enumerate(piece.told, 1):
                hosted.apply(told)
                if count % APPLIED_AT_ONCE_MAX == 0:
                    await asyncio.sleep(0)
            offset = piece.next_offset
        return offset
