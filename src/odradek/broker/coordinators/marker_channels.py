"""Delivery of transaction markers to all partitions of a completed transaction, with retries.

Partitions that cannot be written to are retried with backoff, without a limit. Deleted partitions are not
waited for.

Invariants: a partition is done once its marker is committed, or once the cluster no longer has it. A task
ends with the leadership of the transaction state partition that started it: the next leader starts it again.
"""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from odradek.broker.coordinators.transaction_marker_writer import (
    Codes,
    TransactionMarkerWriter,
    TxnMarkerEntry,
)
from odradek.cluster.metadata_cache import MetadataCache
from odradek.model.errors import ErrorCode
from odradek.model.ids import TRANSACTIONS_TOPIC, TopicPartition
from odradek.ports.clock import Clock
from odradek.telemetry import events

RETRY_MS_MIN: Final = 50
RETRY_MS_MAX: Final = 1_000
"""Retry backoff: doubles from the minimum up to the maximum."""
APPENDS_PER_BATCH: Final = 16
"""Markers appended before yielding to the event loop, over all transactions: about a millisecond."""

log = events.logger("transaction_markers")


class MarkerAction(enum.Enum):
    """Action for a partition after a WriteTxnMarkers error code."""

    DONE = enum.auto()
    RETRY = enum.auto()
    FENCED = enum.auto()


def action_for(code: ErrorCode) -> MarkerAction:
    """Return the action for an error code. FENCED: a newer producer or coordinator epoch took over."""
    if code in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT):
        return MarkerAction.DONE
    if code in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED):
        return MarkerAction.FENCED
    return MarkerAction.RETRY


def _partitions_with(action: MarkerAction, codes: Codes) -> tuple[TopicPartition, ...]:
    return tuple(partition for partition, code in codes.items() if action_for(code) is action)


def _reasons(codes: Codes, partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{partition}: {codes[partition].name}" for partition in partitions)


OnDone = Callable[[tuple[TopicPartition, ...]], None]


class _WriteQueue:
    """Queue of marker writes: after a start, very many transactions may have to be completed."""

    def __init__(self, marker_writer: TransactionMarkerWriter) -> None:
        self._marker_writer = marker_writer
        self._waiting: deque[tuple[TxnMarkerEntry, Sequence[TopicPartition], asyncio.Future[Codes]]] = deque()

    def add(
        self, marker_entry: TxnMarkerEntry, partitions: Sequence[TopicPartition]
    ) -> asyncio.Future[Codes]:
        """Queue markers; the future completes with the error codes."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[Codes] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._write_batch)
        self._waiting.append((marker_entry, partitions, result))
        return result

    def _write_batch(self) -> None:
        appended = 0
        while self._waiting and appended < APPENDS_PER_BATCH:
            marker_entry, partitions, result = self._waiting.popleft()
            if not result.done():  # cancelled with its task
                appended += len(partitions)
                self._write(marker_entry, partitions, result)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._write_batch)

    def _write(
        self,
        marker_entry: TxnMarkerEntry,
        partitions: Sequence[TopicPartition],
        result: asyncio.Future[Codes],
    ) -> None:
        def complete(codes: Codes) -> None:
            if not result.done():
                result.set_result(codes)

        try:
            self._marker_writer.write(marker_entry, partitions, complete)
        except Exception as error:  # noqa: BLE001 - passed on to the waiting task
            result.set_exception(error)


class TransactionMarkerChannelManager:
    """Marker tasks of the transactions that this broker's coordinator is completing."""

    def __init__(
        self, marker_writer: TransactionMarkerWriter, metadata_cache: MetadataCache, clock: Clock
    ) -> None:
        self._write_queue = _WriteQueue(marker_writer)
        self._metadata_cache = metadata_cache
        self._clock = clock
        self._tasks: dict[int, set[asyncio.Task[None]]] = {}
        self._is_stopped = False

    def add_markers(
        self, number: int, marker_entry: TxnMarkerEntry, partitions: Sequence[TopicPartition], on_done: OnDone
    ) -> None:
        """Write the markers of a transaction for transaction state partition ``number``.

        ``on_done`` is called with partitions as they complete, unless a newer epoch fences this one.
        """
        if self._is_stopped:
            return
        tasks = self._tasks.setdefault(number, set())
        task = asyncio.get_running_loop().create_task(
            self._run_task(number, marker_entry, tuple(partitions), on_done)
        )
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def cancel(self, number: int) -> None:
        """Cancel the tasks of transaction state partition ``number``, no longer led here."""
        for task in self._tasks.pop(number, ()):
            task.cancel()

    async def stop(self) -> None:
        self._is_stopped = True
        tasks = [task for number_tasks in self._tasks.values() for task in number_tasks]
        for number in list(self._tasks):
            self.cancel(number)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run_task(
        self,
        number: int,
        marker_entry: TxnMarkerEntry,
        partitions: tuple[TopicPartition, ...],
        on_done: OnDone,
    ) -> None:
        try:
            await self._write_until_done(number, marker_entry, partitions, on_done)
        except Exception as error:  # noqa: BLE001 - the edge of a task
            log.failure("marker_task_crashed", error, producer_id=marker_entry.producer_id)

    async def _write_until_done(
        self,
        number: int,
        marker_entry: TxnMarkerEntry,
        partitions: tuple[TopicPartition, ...],
        on_done: OnDone,
    ) -> None:
        remaining, wait_ms = partitions, RETRY_MS_MIN
        while True:
            codes = await self._write_all(number, marker_entry, remaining)
            done = _partitions_with(MarkerAction.DONE, codes)
            fenced = _partitions_with(MarkerAction.FENCED, codes)
            remaining = _partitions_with(MarkerAction.RETRY, codes)
            if done or not remaining:
                on_done(done)
            if fenced:
                log.warning("markers_fenced", reason=_reasons(codes, fenced), **marker_entry._asdict())
                return
            if not remaining:
                return
            if wait_ms < RETRY_MS_MAX <= 2 * wait_ms:  # logged once
                log.warning("markers_delayed", reason=_reasons(codes, remaining), **marker_entry._asdict())
            await self._clock.sleep_ms(wait_ms)
            wait_ms = min(2 * wait_ms, RETRY_MS_MAX)

    async def _write_all(
        self, number: int, marker_entry: TxnMarkerEntry, partitions: Sequence[TopicPartition]
    ) -> Codes:
        """Write to all partitions; deleted ones count as done."""
        codes: dict[TopicPartition, ErrorCode] = {}
        existing = []
        for partition in partitions:
            if self._is_deleted(number, partition):
                codes[partition] = ErrorCode.NONE
            else:
                existing.append(partition)
        starts = range(0, len(existing), APPENDS_PER_BATCH)
        for result in [
            self._write_queue.add(marker_entry, existing[start : start + APPENDS_PER_BATCH])
            for start in starts
        ]:
            codes.update(await result)
        return codes

    def _is_deleted(self, number: int, partition: TopicPartition) -> bool:
        """Return whether the cluster no longer has a partition.

        Metadata that does not have the coordinator's own partition yet, just after a start, cannot tell.
        """
        if self._metadata_cache.partition(TRANSACTIONS_TOPIC, number) is None:
            return False
        return self._metadata_cache.partition(*partition) is None
