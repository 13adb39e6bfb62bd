"""Queues of transaction markers: one for the partitions led by this broker, one per other broker.

After a start, very many transactions may have to be completed. Markers of this broker are appended a few at a
time. Another broker gets one request at a time, with all markers that wait for it, over a connection of their
own: its response waits until the markers are committed.

Markers of a cancelled transaction are skipped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from odradek.broker.coordinators.transaction_marker_writer import (
    Codes,
    TransactionMarkerWriter,
    TxnMarkerEntry,
)
from odradek.model.client_errors import ClientError
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.net.broker_requests import BrokerChannel, BrokerRequests
from odradek.telemetry import events
from odradek.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

APPENDS_PER_BATCH: Final = 16
"""Markers appended before yielding to the event loop, over all transactions: about a millisecond."""
MARKERS_PER_REQUEST_MAX: Final = 5_000
"""Markers in one request to another broker, over all transactions; exceeded by one transaction alone."""

log = events.logger("transaction_markers")


class PendingTransaction:
    """A transaction whose markers are being written; ``remaining`` are its partitions without one."""

    __slots__ = (
        "backoff",
        "delayed",
        "is_cancelled",
        "marker_entry",
        "number",
        "on_done",
        "remaining",
        "wait_ms",
    )

    def __init__(
        self,
        number: int,
        marker_entry: TxnMarkerEntry,
        partitions: Iterable[TopicPartition],
        on_done: Callable[[tuple[TopicPartition, ...]], None],
        wait_ms: int,
    ) -> None:
        self.number = number
        """Its transaction state partition."""
        self.marker_entry = marker_entry
        self.remaining = set(partitions)
        self.on_done = on_done
        self.wait_ms = wait_ms
        """Wait before the next retry."""
        self.delayed: list[TopicPartition] = []
        """Partitions that wait for the next retry."""
        self.backoff: asyncio.Task[None] | None = None
        self.is_cancelled = False


OnCodes = Callable[[PendingTransaction, Codes], None]


class LocalMarkerQueue:
    """``on_codes`` gets the results in a later iteration of the event loop, ``on_crash`` an exception."""

    def __init__(
        self,
        marker_writer: TransactionMarkerWriter,
        on_codes: OnCodes,
        on_crash: Callable[[PendingTransaction, Exception], None],
    ) -> None:
        self._marker_writer = marker_writer
        self._on_codes = on_codes
        self._on_crash = on_crash
        self._waiting: deque[tuple[PendingTransaction, Sequence[TopicPartition]]] = deque()

    def add(self, transaction: PendingTransaction, partitions: Sequence[TopicPartition]) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._write_batch)
        for start in range(0, len(partitions), APPENDS_PER_BATCH):
            self._waiting.append((transaction, partitions[start : start + APPENDS_PER_BATCH]))

    def _write_batch(self) -> None:
        appended = 0
        while self._waiting and appended < APPENDS_PER_BATCH:
            transaction, partitions = self._waiting.popleft()
            if transaction.is_cancelled:
                continue
            appended += len(partitions)
            try:
                self._marker_writer.write(
                    transaction.marker_entry, partitions, partial(self._report_later, transaction)
                )
            except Exception as error:  # noqa: BLE001 - other transactions go on
                self._on_crash(transaction, error)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._write_batch)

    def _report_later(self, transaction: PendingTransaction, codes: Codes) -> None:
        # A marker may be committed while a coordinator executes effects: it must not be called then.
        asyncio.get_running_loop().call_soon(self._on_codes, transaction, codes)


class RemoteMarkerSettings(NamedTuple):
    """``version_max`` is the version of WriteTxnMarkers in the cluster's inter-broker protocol."""

    requests: BrokerRequests
    timeout_ms: Callable[[], int]
    version_max: int


class RemoteMarkerQueue:
    """Markers for the partitions led by another broker. A request that fails gives NETWORK_EXCEPTION."""

    def __init__(self, broker_id: int, settings: RemoteMarkerSettings, on_codes: OnCodes) -> None:
        self._broker_id = broker_id
        self._settings = settings
        self._on_codes = on_codes
        self._waiting: deque[tuple[PendingTransaction, Sequence[TopicPartition]]] = deque()
        self._channel: BrokerChannel | None = None
        self._task: asyncio.Task[None] | None = None

    def add(self, transaction: PendingTransaction, partitions: Sequence[TopicPartition]) -> None:
        self._waiting.append((transaction, partitions))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Fail the request in flight and all markers that wait."""
        if self._channel is not None:
            await self._channel.close()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            while self._waiting:
                transactions = self._take()
                if transactions:
                    await self._send(transactions)
        finally:
            self._task = None

    def _take(self) -> dict[PendingTransaction, list[TopicPartition]]:
        """Remove and return the markers of the next request. Its response tells them apart by producer id, so
        there is one transaction per producer."""
        taken: dict[PendingTransaction, list[TopicPartition]] = {}
        by_producer: dict[int, PendingTransaction] = {}
        left: list[tuple[PendingTransaction, Sequence[TopicPartition]]] = []
        count = 0
        while self._waiting and count < MARKERS_PER_REQUEST_MAX:
            transaction, partitions = self._waiting.popleft()
            if transaction.is_cancelled:
                continue
            if by_producer.setdefault(transaction.marker_entry.producer_id, transaction) is not transaction:
                left.append((transaction, partitions))
                continue
            taken.setdefault(transaction, []).extend(partitions)
            count += len(partitions)
        self._waiting.extendleft(reversed(left))
        return taken

    async def _send(self, transactions: dict[PendingTransaction, list[TopicPartition]]) -> None:
        settings = self._settings
        request = WriteTxnMarkersRequest(
            [_marker(each.marker_entry, partitions) for each, partitions in transactions.items()]
        )
        by_producer: dict[int, dict[TopicPartition, ErrorCode]] = {}
        missing = ErrorCode.UNKNOWN_SERVER_ERROR
        try:
            if self._channel is None:
                name = f"transaction-markers-{self._broker_id}"
                self._channel = settings.requests.open_channel(self._broker_id, name)
            response: WriteTxnMarkersResponse = await self._channel.send(
                request, settings.timeout_ms(), version_max=settings.version_max
            )
            by_producer = _codes_by_producer(response)
        except ClientError as error:
            missing = ErrorCode.NETWORK_EXCEPTION
            log.info("markers_not_sent", broker=self._broker_id, reason=str(error))
        except Exception as error:  # noqa: BLE001 - the transactions must go on, and so must this queue
            log.failure("marker_request_crashed", error, broker=self._broker_id)
        for transaction, partitions in transactions.items():
            codes = by_producer.get(transaction.marker_entry.producer_id, {})
            self._on_codes(transaction, {each: codes.get(each, missing) for each in partitions})


def _marker(marker_entry: TxnMarkerEntry, partitions: Iterable[TopicPartition]) -> WritableTxnMarker:
    topics: dict[str, WritableTxnMarkerTopic] = {}
    for topic, number in partitions:
        topics.setdefault(topic, WritableTxnMarkerTopic(topic, [])).partition_indexes.append(number)
    return WritableTxnMarker(
        marker_entry.producer_id,
        marker_entry.producer_epoch,
        marker_entry.commits,
        list(topics.values()),
        marker_entry.coordinator_epoch,
    )


def _codes_by_producer(response: WriteTxnMarkersResponse) -> dict[int, dict[TopicPartition, ErrorCode]]:
    return {
        marker.producer_id: {
            TopicPartition(topic.name, entry.partition_index): ErrorCode(entry.error_code)
            for topic in marker.topics
            for entry in topic.partitions
        }
        for marker in response.markers
    }
