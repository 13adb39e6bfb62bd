"""Delivery of transaction markers to the leaders of all partitions of a completed transaction, with retries.

Leaders come from the metadata cache at each attempt. Partitions without a known leader, or that cannot be
written to, are retried with backoff, and at once when metadata of their topic changes, without a limit.
Deleted partitions are not waited for.

Invariants: a partition is done once its marker is committed, or once the cluster no longer has it. A
transaction is given up with the leadership of the transaction state partition that started it: the next
leader starts it again.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from odradek.broker.coordinators.marker_queues import (
    LocalMarkerQueue,
    PendingTransaction,
    RemoteMarkerQueue,
    RemoteMarkerSettings,
)
from odradek.broker.coordinators.transaction_marker_writer import (
    Codes,
    TransactionMarkerWriter,
    TxnMarkerEntry,
)
from odradek.cluster.metadata_cache import MetadataCache
from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_LEADER, TRANSACTIONS_TOPIC, TopicPartition
from odradek.ports.clock import Clock
from odradek.replication.control_requests import MetadataChange
from odradek.telemetry import events

RETRY_MS_MIN: Final = 50
RETRY_MS_MAX: Final = 1_000
"""Retry backoff: doubles from the minimum up to the maximum."""

log = events.logger("transaction_markers")


class MarkerAction(enum.Enum):
    """Action for a partition after a WriteTxnMarkers error code."""

    DONE = enum.auto()
    RETRY = enum.auto()
    FENCED = enum.auto()


_DONE: Final = (ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION)
_FENCED: Final = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)


def action_for(code: ErrorCode) -> MarkerAction:
    """Return the action for an error code. FENCED: a newer producer or coordinator epoch took over."""
    if code in _DONE:
        return MarkerAction.DONE
    return MarkerAction.FENCED if code in _FENCED else MarkerAction.RETRY


def _partitions_with(action: MarkerAction, codes: Codes) -> tuple[TopicPartition, ...]:
    return tuple(partition for partition, code in codes.items() if action_for(code) is action)


def _reasons(codes: Codes, partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{partition}: {codes[partition].name}" for partition in partitions)


OnDone = Callable[[tuple[TopicPartition, ...]], None]


class TransactionMarkerChannelManager:
    """Markers of the transactions that this broker's coordinator is completing."""

    def __init__(
        self,
        broker_id: int,
        marker_writer: TransactionMarkerWriter,
        metadata_cache: MetadataCache,
        clock: Clock,
        remote: RemoteMarkerSettings,
    ) -> None:
        self._broker_id = broker_id
        self._metadata_cache = metadata_cache
        self._clock = clock
        self._remote = remote
        self._local_queue = LocalMarkerQueue(marker_writer, self._on_codes, self._on_crash)
        self._remote_queues: dict[int, RemoteMarkerQueue] = {}
        self._transactions: dict[int, set[PendingTransaction]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._is_stopped = False

    def add_markers(
        self, number: int, marker_entry: TxnMarkerEntry, partitions: Sequence[TopicPartition], on_done: OnDone
    ) -> None:
        """Write the markers of a transaction for transaction state partition ``number``.

        ``on_done`` is called with partitions as they complete, unless a newer epoch fences this one.
        """
        if self._is_stopped:
            return
        transaction = PendingTransaction(number, marker_entry, partitions, on_done, RETRY_MS_MIN)
        self._transactions.setdefault(number, set()).add(transaction)
        # Later: the coordinator is executing effects, and must not be called by ``on_done``.
        asyncio.get_running_loop().call_soon(self._send, transaction, tuple(partitions))

    def cancel(self, number: int) -> None:
        """Give up the transactions of transaction state partition ``number``, no longer led here."""
        for transaction in self._transactions.pop(number, ()):
            self._cancel(transaction)

    def on_metadata_change(self, change: MetadataChange) -> None:
        """Retry partitions whose leader may be known now; drop connections to dead brokers."""
        for broker_id in self._remote_queues.keys() - self._metadata_cache.brokers.keys():
            self._close_queue(self._remote_queues.pop(broker_id))
        if not change.topics:
            return
        changed = set(change.topics)
        pending = [each for transactions in self._transactions.values() for each in transactions]
        for transaction in pending:
            backoff = transaction.backoff
            if backoff is not None and any(each.topic in changed for each in transaction.delayed):
                backoff.cancel()
                self._retry(transaction)

    async def stop(self) -> None:
        self._is_stopped = True
        for number in list(self._transactions):
            self.cancel(number)
        for queue in self._remote_queues.values():
            self._close_queue(queue)
        self._remote_queues.clear()
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _close_queue(self, queue: RemoteMarkerQueue) -> None:
        task = asyncio.get_running_loop().create_task(queue.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    # Attempts.

    def _send(self, transaction: PendingTransaction, partitions: Sequence[TopicPartition]) -> None:
        """Queue markers for the leaders of their partitions; deleted partitions are done."""
        if transaction.is_cancelled:
            return
        codes: dict[TopicPartition, ErrorCode] = {}
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            leader = self._find_leader(transaction.number, partition)
            if leader is None:
                codes[partition] = ErrorCode.NONE
            elif leader == NO_LEADER:
                codes[partition] = ErrorCode.LEADER_NOT_AVAILABLE
            else:
                by_leader.setdefault(leader, []).append(partition)
        for leader, led in by_leader.items():
            if leader == self._broker_id:
                self._local_queue.add(transaction, led)
            else:
                self._remote_queue(leader).add(transaction, led)
        if codes or not partitions:
            self._on_codes(transaction, codes)

    def _find_leader(self, number: int, partition: TopicPartition) -> int | None:
        """Return the live leader of a partition; NO_LEADER if none is known, None if it was deleted.

        Metadata that does not have the coordinator's own partition yet, just after a start, cannot tell.
        """
        metadata = self._metadata_cache.partition(*partition)
        if metadata is None:
            is_loaded = self._metadata_cache.partition(TRANSACTIONS_TOPIC, number) is not None
            return None if is_loaded else NO_LEADER
        is_reachable = metadata.leader == self._broker_id or self._metadata_cache.is_alive(metadata.leader)
        return metadata.leader if is_reachable else NO_LEADER

    def _remote_queue(self, broker_id: int) -> RemoteMarkerQueue:
        queue = self._remote_queues.get(broker_id)
        if queue is None:
            queue = self._remote_queues[broker_id] = RemoteMarkerQueue(
                broker_id, self._remote, self._on_codes
            )
        return queue

    # Results.

    def _on_codes(self, transaction: PendingTransaction, codes: Codes) -> None:
        try:
            self._handle_codes(transaction, codes)
        except Exception as error:  # noqa: BLE001 - the edge of a callback
            self._on_crash(transaction, error)

    def _handle_codes(self, transaction: PendingTransaction, codes: Codes) -> None:
        if transaction.is_cancelled:
            return
        done = _partitions_with(MarkerAction.DONE, codes)
        fenced = _partitions_with(MarkerAction.FENCED, codes)
        transaction.remaining.difference_update(done)
        if done or not transaction.remaining:
            transaction.on_done(done)
        if fenced:
            fields = transaction.marker_entry._asdict()
            log.warning("markers_fenced", reason=_reasons(codes, fenced), **fields)
        if fenced or not transaction.remaining:
            self._drop(transaction)
            return
        delayed = _partitions_with(MarkerAction.RETRY, codes)
        if delayed:
            self._retry_later(transaction, delayed, codes)

    def _on_crash(self, transaction: PendingTransaction, error: Exception) -> None:
        log.failure("marker_task_crashed", error, producer_id=transaction.marker_entry.producer_id)
        self._drop(transaction)

    def _drop(self, transaction: PendingTransaction) -> None:
        self._cancel(transaction)
        transactions = self._transactions.get(transaction.number)
        if transactions is not None:
            transactions.discard(transaction)

    def _cancel(self, transaction: PendingTransaction) -> None:
        transaction.is_cancelled = True
        if transaction.backoff is not None:
            transaction.backoff.cancel()
            transaction.backoff = None

    # Retries.

    def _retry_later(
        self, transaction: PendingTransaction, partitions: Sequence[TopicPartition], codes: Codes
    ) -> None:
        transaction.delayed.extend(partitions)
        if transaction.backoff is not None:
            return
        wait_ms = transaction.wait_ms
        if wait_ms < RETRY_MS_MAX <= 2 * wait_ms:  # logged once
            fields = transaction.marker_entry._asdict()
            log.warning("markers_delayed", reason=_reasons(codes, partitions), **fields)
        transaction.wait_ms = min(2 * wait_ms, RETRY_MS_MAX)
        transaction.backoff = asyncio.get_running_loop().create_task(self._back_off(transaction, wait_ms))

    async def _back_off(self, transaction: PendingTransaction, wait_ms: int) -> None:
        await self._clock.sleep_ms(wait_ms)
        self._retry(transaction)

    def _retry(self, transaction: PendingTransaction) -> None:
        partitions, transaction.delayed = transaction.delayed, []
        transaction.backoff = None
        self._send(transaction, partitions)
