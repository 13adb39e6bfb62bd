"""Appends of a produce request that wait for their validation on threads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from odradek.broker.coordinators.transaction_verification import transaction_check
from odradek.broker.handlers.produce_errors import fill_error, log_rejected_batch
from odradek.broker.requests.dispatcher import NoResponse, RequestContext
from odradek.broker.requests.pending_response import PendingResponse
from odradek.log.log import LogAppendInfo
from odradek.model.errors import BrokerError
from odradek.model.protocol_enums import ACKS_ALL
from odradek.records.batch_producer import transactional_producer
from odradek.replication.append_queue import AppendResult, QueuedAppend
from odradek.replication.delayed.delayed_produce import ProducePartitionStatus
from odradek.replication.partition import Partition
from odradek.wire.messages.produce import PartitionProduceData, PartitionProduceResponse, ProduceResponse

Response = ProduceResponse | NoResponse | PendingResponse[ProduceResponse]


class QueuedAppends:
    """Appends of one request that are validated on threads, or queued behind such appends."""

    __slots__ = (
        "_acks",
        "_close_reason",
        "_context",
        "_count",
        "_pending",
        "_respond",
        "_unflushed",
        "_waiting",
    )

    def __init__(
        self,
        acks: int,
        context: RequestContext,
        waiting: list[ProducePartitionStatus],
        unflushed: list[ProducePartitionStatus],
    ) -> None:
        self._acks = acks
        self._context = context
        self._waiting = waiting
        self._unflushed = unflushed
        self._count = 0
        self._close_reason: str | None = None
        self._respond: Callable[[], Response] | None = None
        self._pending: PendingResponse[Response] = PendingResponse()

    def add(
        self, partition: Partition, data: PartitionProduceData, *, in_transaction: bool
    ) -> PartitionProduceResponse:
        """Queue an append; return the entry of the response that it fills in."""
        entry = PartitionProduceResponse(data.index, 0, -1)
        self._count += 1
        producer = transactional_producer(data.records) if in_transaction else None
        append = QueuedAppend(
            b"" if data.records is None else data.records,
            self._acks,
            self._context.version,
            # A marker may end the verified transaction meanwhile.
            _nothing_to_check if producer is None else transaction_check(partition, producer.producer_id),
            partial(self._on_append_done, partition, entry),
        )
        self._context.broker.replica_manager.queue_append(partition, self._context.session, append)
        return entry

    def then(self, respond: Callable[[], Response]) -> PendingResponse[Response]:
        """Return a pending response that completes with ``respond()`` once all appends are done."""
        self._respond = respond
        return self._pending

    def _on_append_done(
        self, partition: Partition, entry: PartitionProduceResponse, result: AppendResult
    ) -> None:
        if result is None:
            self._close_reason = "produce failed inside the broker"
        elif isinstance(result, BrokerError):
            log_rejected_batch(*partition.topic_partition, result, self._context)
            fill_error(entry, result)
        else:
            self._fill_entry(partition, entry, result)
        self._count -= 1
        if not self._count:
            assert self._respond is not None, "queued appends complete in a later loop iteration"
            self._pending.complete(
                self._respond() if self._close_reason is None else NoResponse(self._close_reason)
            )

    def _fill_entry(
        self, partition: Partition, entry: PartitionProduceResponse, append_info: LogAppendInfo
    ) -> None:
        entry.base_offset = append_info.first_offset
        entry.log_append_time_ms = append_info.append_time_ms
        entry.log_start_offset = append_info.log_start_offset
        self._context.broker.replica_manager.complete_delayed_fetches(partition)
        if partition.is_flush_pending:
            self._unflushed.append(ProducePartitionStatus(partition, append_info.last_offset + 1, entry))
        if self._acks == ACKS_ALL and partition.log.high_watermark <= append_info.last_offset:
            self._waiting.append(ProducePartitionStatus(partition, append_info.last_offset + 1, entry))


def _nothing_to_check() -> None:
    pass
