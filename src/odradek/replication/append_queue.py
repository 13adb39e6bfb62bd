"""Appends whose records are validated on threads, in arrival order per partition and connection.

Decompressing a batch can take a thousand times longer than receiving it. Batches that exceed what the event
loop may do at once (``EVENT_LOOP_LIMITS``) are validated by ``Workers`` and appended afterwards; later
appends of the same connection to the same partition wait behind them. Appends of other connections do not:
there is no order between connections, and a client must not wait for the batches of another. Batches that
decompress to more than ``WORKER_LIMITS`` allows are validated one at a time over all partitions, which
bounds the memory used: one batch of ``odradek.decompressed.bytes.max``, and a smaller one per thread.

Invariant: each callback is called once, from the event loop, in the order in which its connection queued the
appends. Leadership, ISR and transaction are checked again when the append is made.
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
"""The connection whose appends stay in order."""

AppendResult = LogAppendInfo | BrokerError | None
"""The append, its error, or None after an internal failure: then the connection must be closed."""


class QueuedAppend:
    """Records of one produce request for one partition.

    ``check`` is called right before the append, and raises ``BrokerError`` if it must not happen any more.
    """

    __slots__ = ("acks", "callback", "check", "produce_version", "records")

    def __init__(
        self,
        records: Buffer,
        acks: int,
        produce_version: int,
        check: Callable[[], None],
        callback: Callable[[AppendResult], None],
    ) -> None:
        self.records = records
        self.acks = acks
        self.produce_version = produce_version
        self.check = check
        self.callback = callback


class AppendQueue:
    def __init__(self, workers: Workers, clock: Clock) -> None:
        self._workers = workers
        self._clock = clock
        self._queues: dict[tuple[Partition, Source], deque[QueuedAppend]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def has(self, partition: Partition, source: Source) -> bool:
        """Return whether this source has queued appends to the partition: later ones must queue as well."""
        return (partition, source) in self._queues

    def add(self, partition: Partition, source: Source, append: QueuedAppend) -> None:
        """Append after everything this source has queued for this partition, then call back."""
        queue = self._queues.get((partition, source))
        if queue is not None:
            queue.append(append)
            return
        self._queues[partition, source] = deque([append])
        partition.queued_appends += 1
        task = asyncio.get_running_loop().create_task(self._run(partition, source))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def drain(self) -> None:
        """Return once the queues are empty; for a shutdown."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, partition: Partition, source: Source) -> None:
        queue = self._queues[partition, source]
        while queue:
            append = queue[0]
            try:
                result: AppendResult = await self._append(partition, append)
            except BrokerError as error:
                result = error
            except Exception as error:  # noqa: BLE001 - the edge of a task: other appends wait
                log.failure("append_crashed", error, partition=partition.topic_partition)
                result = None
            queue.popleft()
            if not queue:
                del self._queues[partition, source]
                partition.queued_appends -= 1
            append.callback(result)

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
        # Outside the exception handler: the exception would keep decompressed data from being freed.
        return await self._workers.run_alone(validate)
