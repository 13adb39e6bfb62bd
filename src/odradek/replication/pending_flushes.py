"""Flushes that appends wait for (``flush.messages``), shared by all callers that wait.

A log has one flush in progress. Callers that arrive meanwhile wait for the next one, which serves all of
them: however many producers there are, each waits for at most two syncs.

Invariant: each callback is called once, from the event loop, at the end of a flush that began after the
request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from odradek.model.errors import StorageError
from odradek.replication.partition import Partition
from odradek.telemetry import events

log = events.logger("flushes")

FlushCallback = Callable[[StorageError | None], None]


class PendingFlushes:
    """``on_flushed`` is called for each flushed partition, before the callbacks of its waiters."""

    def __init__(self, on_flushed: Callable[[Partition], None]) -> None:
        self._on_flushed = on_flushed
        self._callbacks: dict[Partition, list[FlushCallback]] = {}
        self._unflushed: set[Partition] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def request(self, partition: Partition, callback: FlushCallback) -> None:
        """Flush the partition's log, then call back with None or the failure."""
        callbacks = self._callbacks.get(partition)
        if callbacks is not None:
            callbacks.append(callback)
            return
        self._callbacks[partition] = [callback]
        task = asyncio.get_running_loop().create_task(self._run(partition))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def retry(self) -> None:
        """Flush again the partitions whose last flush failed although their logs are usable."""
        for partition in self._unflushed:
            if partition.is_flush_pending and partition.is_leader and partition.log.failure is None:
                self.request(partition, lambda failure: None)
        self._unflushed.clear()

    async def drain(self) -> None:
        """Return once no flush is in progress."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, partition: Partition) -> None:
        while callbacks := self._callbacks[partition]:
            self._callbacks[partition] = []
            failure = None
            try:
                await _flush(partition)
            except StorageError as error:
                failure = error
                self._unflushed.add(partition)
            except Exception as error:  # noqa: BLE001 - the edge of a task: no caller may wait for ever
                log.failure("flush_crashed", error, partition=partition.topic_partition)
                failure = StorageError(f"flush failed: {error}")
            else:
                self._on_flushed(partition)
            for callback in callbacks:
                callback(failure)
        del self._callbacks[partition]


async def _flush(partition: Partition) -> None:
    flushed = None
    while flushed is not partition.log:  # the log may have moved to another directory meanwhile
        flushed = partition.log
        await flushed.flush()
