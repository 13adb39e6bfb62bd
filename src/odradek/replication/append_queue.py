"""Appends whose records are validated on threads, in arrival order per partition and connection.

Decompressing a batch can take a thousand times longer than receiving it. Batches that take more than the
event loop may give in one go (``EVENT_LOOP_LIMITS``) are validated by ``Workers`` and appended afterwards;
appends
of the same connection to the same partition that come meanwhile wait behind them. Those of other connections
do not: between connections there is no order, and a client must not wait for the batches of another. Batches
that unpack to more than ``WORKER_LIMITS`` allows are validated one at a time over all partitions, which
bounds the
memory that unpacking takes: one batch of ``odradek.decompressed.bytes.max``, and an ordinary one per thread.

Invariant: each append is told of once, from the event loop, in the order of the asking of its source.
LeaderAndIsr, ISR and transaction are checked again at the moment of the append.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import partial

from odradek.log.log import LogAppendInfo
from odradek.model.errors import BrokerError
from odradek.ports.clock import Clock
from odradek.ports.files import Buffer
from odradek.ports.workers import Workers
from odradek.records.append_rules import WORKER_LIMITS, WorkLimitExceeded
from odradek.records.validation import ValidatedRecords, validate_and_assign_offsets
from odradek.replication.partition import Partition
from odradek.telemetry import events

log = events.logger("append_queue")

Source = Hashable
"""Whoever's appends stay in order: a connection."""

AppendResult = LogAppendInfo | BrokerError | None
"""The append, its refusal, or None after a failure inside the broker: only closing the connection is left."""


class QueuedAppend:
    """Records of one produce request for one partition.

    ``check`` raises ``BrokerError`` if they must not be appended any more: it is called right before.
    """

    __slots__ = ("acks", "check", "produce_version", "records", "told")

    def __init__(
        self,
        records: Buffer,
        acks: int,
        produce_version: int,
        check: Callable[[], None],
        told: Callable[[AppendResult], None],
    ) -> None:
        self.records = records
        self.acks = acks
        self.produce_version = produce_version
        self.check = check
        self.told = told


class AppendQueue:
    def __init__(self, workers: Workers, clock: Clock) -> None:
        self._workers = workers
        self._clock = clock
        self._waiting: dict[tuple[Partition, Source], deque[QueuedAppend]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def has(self, partition: Partition, source: Source) -> bool:
        """Return whether appends of this source wait for this partition: its next ones must do so too."""
        return (partition, source) in self._waiting

    def add(self, partition: Partition, source: Source, append: QueuedAppend) -> None:
        """Append after all that this source has waiting for this partition, and tell of it."""
        waiting = self._waiting.get((partition, source))
        if waiting is not None:
            waiting.append(append)
            return
        self._waiting[partition, source] = deque([append])
        partition.queued_appends += 1
        task = asyncio.get_running_loop().create_task(self._run(partition, source))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def settle(self) -> None:
        """Return once nothing waits; for a stop."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, partition: Partition, source: Source) -> None:
        waiting = self._waiting[partition, source]
        while waiting:
            append = waiting[0]
            try:
                result: AppendResult = await self._append(partition, append)
            except BrokerError as refused:
                result = refused
            except Exception as broken:  # noqa: BLE001 - the edge of a task: others wait
                log.failure("append_broken", broken, partition=partition.topic_partition)
                result = None
            waiting.popleft()
            if not waiting:
                del self._waiting[partition, source]
                partition.queued_appends -= 1
            append.told(result)

    async def _append(self, partition: Partition, append: QueuedAppend) -> LogAppendInfo:
        append.check()
        try:
            return partition.append(
                append.records, append.acks, append.produce_version, self._clock.wall_ms()
            )
        except WorkLimitExceeded:
            pass
        now_ms = self._clock.wall_ms()
        validated = await self._validate(partition, append, now_ms)
        append.check()
        return partition.append_validated(validated, append.acks, now_ms)

    async def _validate(self, partition: Partition, append: QueuedAppend, now_ms: int) -> ValidatedRecords:
        validate = partial(
            validate_and_assign_offsets,
            append.records,
            next_offset=0,
            leader_epoch=partition.leader_epoch,
            now_ms=now_ms,
            rules=partition.log.append_rules,
            produce_version=append.produce_version,
        )
        with suppress(WorkLimitExceeded):
            return await self._workers.run(partial(validate, limits=WORKER_LIMITS))
        # Not while the exception is handled: it would keep what was unpacked so far from being freed.
        return await self._workers.run_alone(validate)
