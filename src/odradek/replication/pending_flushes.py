"""Flushes that appends wait for (``flush.messages``), shared by all who wait.

A log has one flush under way. Those who ask meanwhile wait for the next one, which serves them all: however
many producers there are, each waits for at most two syncs.

Invariant: whoever asked is told once, from the event loop, of the end of a flush that began after the asking.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from odradek.model.errors import StorageError
from odradek.replication.partition import Partition
from odradek.telemetry import events

log = events.logger("flushes")

Told = Callable[[StorageError | None], None]


class Flushes:
    """``on_flushed`` hears of each partition that was flushed, before those who wait for it do."""

    def __init__(self, on_flushed: Callable[[Partition], None]) -> None:
        self._on_flushed = on_flushed
        self._waiting: dict[Partition, list[Told]] = {}
        self._unflushed: set[Partition] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def ask(self, partition: Partition, told: Told) -> None:
        """Bring to the disk what the partition has, and tell: nothing, or what failed."""
        waiting = self._waiting.get(partition)
        if waiting is not None:
            waiting.append(told)
            return
        self._waiting[partition] = [told]
        task = asyncio.get_running_loop().create_task(self._run(partition))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def retry(self) -> None:
        """Flush again the partitions whose last flush was refused, though their logs are sound."""
        for partition in self._unflushed:
            if partition.is_flush_pending and partition.is_leader and partition.log.failure is None:
                self.ask(partition, lambda failure: None)
        self._unflushed.clear()

    async def settle(self) -> None:
        """Return once no flush is under way."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, partition: Partition) -> None:
        while waiting := self._waiting[partition]:
            self._waiting[partition] = []
            failure = None
            try:
                await _flush(partition)
            except StorageError as failed:
                failure = failed
                self._unflushed.add(partition)
            except Exception as broken:  # noqa: BLE001 - the edge of a task: nobody may wait for ever
                log.failure("flush_broken", broken, partition=partition.topic_partition)
                failure = StorageError(f"cannot flush: {broken}")
            else:
                self._on_flushed(partition)
            for told in waiting:
                told(failure)
        del self._waiting[partition]


async def _flush(partition: Partition) -> None:
    flushed = None
    while flushed is not partition.log:  # it may have moved to another directory meanwhile
        flushed = partition.log
        await flushed.flush()
