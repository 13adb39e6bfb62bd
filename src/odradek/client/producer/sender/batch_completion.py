"""Completion of sent batches: acknowledged, split, retried or failed; and the release of their memory.

Invariants: each batch is completed exactly once, before its memory is reused. The memory of a batch in flight
is released when its request has ended, not before, even if the batch has expired earlier.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from odradek.client.errors import backoff
from odradek.client.network.network_client import ClusterMetadata, NetworkClient
from odradek.client.producer.accumulator.buffer_pool import Waiter
from odradek.client.producer.accumulator.record_accumulator import NEVER_MS, Retry
from odradek.client.producer.accumulator.shared_state import SharedState
from odradek.client.producer.sender.produce_errors import (
    BatchAction,
    batch_action,
    batch_error,
    record_errors,
)
from odradek.client.producer.sender.sender_metrics import SenderMetrics
from odradek.client.values import Node
from odradek.config.client import producer as options
from odradek.config.definition import Settings
from odradek.model.client_errors import ClientError, ConnectionFailed, TimedOut
from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_SEQUENCE, TopicPartition
from odradek.ports.entropy import Entropy
from odradek.telemetry import events

if TYPE_CHECKING:
    from odradek.records.client.producer import ProducerBatch
    from odradek.wire.messages.produce import PartitionProduceResponse, ProduceResponse

log = events.logger("producer")

_AFTER_LAST_SEQUENCE: Final = 1 << 31


class BatchCompletion:
    """Completes batches. ``has_failures`` is set after failures, when sequences may be unresolved.

    ``sent`` is the cluster metadata at the time a request was sent.
    """

    def __init__(
        self,
        network: NetworkClient,
        shared: SharedState,
        settings: Settings,
        entropy: Entropy,
        metrics: SenderMetrics,
    ) -> None:
        self._network = network
        self._accumulator = shared.accumulator
        self._pool = shared.pool
        self._compression = shared.compression
        self._growth = shared.growth
        self._lock = shared.lock
        self._transaction_manager = shared.transaction_manager
        self._settings = settings
        self._entropy = entropy
        self._metrics = metrics
        self._retries = settings[options.RETRIES]
        self._delivery_timeout_ms = settings[options.DELIVERY_TIMEOUT_MS]
        self._reuses_buffers = options.required_acks(settings) != 0
        self._unreleased: dict[ProducerBatch, int] = {}
        self.in_flight: dict[ProducerBatch, int] = {}
        """Batches whose request has not ended, with their creation time."""
        self.expiry_check_ms = NEVER_MS
        """The earliest time at which a batch in flight expires."""
        self.has_failures = False

    # Requests.

    def on_sent(self, batches: Sequence[ProducerBatch]) -> None:
        """Note the batches of a request: their buffers are in use until it ends."""
        for batch in batches:
            self.in_flight[batch] = batch.created_ms
        oldest_ms = min([batch.created_ms for batch in batches])
        self.expiry_check_ms = min(self.expiry_check_ms, oldest_ms + self._delivery_timeout_ms)

    def on_request_ended(self, batches: Sequence[ProducerBatch]) -> None:
        """Note the end of a request; the batches are completed next."""
        for batch in batches:
            del self.in_flight[batch]
        if not self.in_flight:
            self.expiry_check_ms = NEVER_MS

    def complete_unacknowledged(self, batches: Iterable[ProducerBatch]) -> None:
        """Complete batches that were sent with acks=0."""
        batches = list(batches)
        for batch in batches:
            self.acknowledge(batch, -1, -1)
        self.release(batches)

    def acknowledge(self, batch: ProducerBatch, base_offset: int, log_append_time: int) -> None:
        """Complete a written batch; ``release`` must follow."""
        if not batch.done:
            if self._transaction_manager is not None:
                self._transaction_manager.acknowledged(batch, base_offset)
            batch.complete(base_offset, log_append_time)

    def on_error_response(
        self,
        batch: ProducerBatch,
        partition: PartitionProduceResponse,
        response: ProduceResponse,
        broker: str,
        sent: ClusterMetadata,
        now_ms: int,
    ) -> None:
        """Handle the error of a partition response."""
        code = ErrorCode(partition.error_code)
        if code.stale_metadata:
            self._update_leader(batch, partition, response)
        error = batch_error(batch, code, partition.error_message, broker)
        by_record = record_errors(batch, code, partition.record_errors, broker)
        self._handle_error(batch, code, error, sent, now_ms, partition, by_record)

    def on_request_failed(
        self, batch: ProducerBatch, error: ClientError, sent: ClusterMetadata, now_ms: int
    ) -> None:
        """Handle a request that could not be sent or got no response."""
        code = ErrorCode.NETWORK_EXCEPTION
        if isinstance(error, TimedOut):
            code = ErrorCode.REQUEST_TIMED_OUT
        elif not isinstance(error, ConnectionFailed):
            code = error.code or ErrorCode.UNSUPPORTED_VERSION
        if code.stale_metadata or isinstance(error, TimedOut):
            self._network.request_update()
        self._handle_error(batch, code, error, sent, now_ms)

    def _handle_error(
        self,
        batch: ProducerBatch,
        code: ErrorCode,
        error: ClientError,
        sent: ClusterMetadata,
        now_ms: int,
        partition: PartitionProduceResponse | None = None,
        by_record: Any = None,
    ) -> None:
        has_attempts = batch.attempts < self._retries
        has_time = batch.created_ms + self._delivery_timeout_ms > now_ms
        action = batch_action(
            batch,
            code,
            -1 if partition is None else partition.log_start_offset,
            can_retry=has_attempts and has_time and not batch.done,
            transaction_manager=self._transaction_manager,
        )
        self.has_failures = True
        if action is BatchAction.WRITTEN:
            self.acknowledge(batch, -1 if partition is None else partition.base_offset, -1)
            self.release([batch])
        elif action is BatchAction.SPLIT:
            self._split(batch)
        elif action is BatchAction.RETRY:
            self._requeue(batch, error, sent, now_ms)
        else:
            self.fail(batch, error, adjust_sequences=has_attempts, by_record=by_record)

    def fail(
        self, batch: ProducerBatch, error: BaseException, *, adjust_sequences: bool, by_record: Any = None
    ) -> None:
        """Fail the records of a batch; ``by_record`` holds their own errors, if the broker named any."""
        self.has_failures = True
        if not batch.done:
            self._metrics.failed(batch)
            if self._transaction_manager is not None:
                self._transaction_manager.failed(batch, error, adjust_sequences=adjust_sequences)
            if by_record is None:
                batch.fail(error)
            else:
                batch.fail_records(*by_record)
        self.release([batch])

    def _requeue(self, batch: ProducerBatch, error: ClientError, sent: ClusterMetadata, now_ms: int) -> None:
        backoff_ms = backoff(batch.attempts, self._settings, self._entropy)
        batch.attempts += 1
        self._metrics.retried(batch)
        # The leader epoch of this attempt: a newer leader is tried without backoff.
        epoch = sent.leader(TopicPartition(batch.topic, batch.partition))[1]
        log.debug("batch_retried", partition=f"{batch.topic}-{batch.partition}", reason=str(error))
        with self._lock:
            self._accumulator.requeue(batch, Retry(now_ms + backoff_ms, epoch, error))
        if self._transaction_manager is not None:
            self._transaction_manager.requeued(batch)

    def _split(self, batch: ProducerBatch) -> None:
        self._compression.on_batch_too_large(batch.topic)
        self._growth.on_batch_too_large(batch.topic, batch.size_bytes)
        self._metrics.split()
        with self._lock:
            parts = self._accumulator.split(batch)
        if self._transaction_manager is not None:
            self._transaction_manager.split(batch, parts)
        self.release([batch])

    def release(self, batches: Sequence[ProducerBatch]) -> None:
        """Remove completed batches. Their memory is released now, or when their request has ended."""
        granted: list[Waiter] = []
        with self._lock:
            for batch in batches:
                memory_bytes = self._accumulator.remove(batch)
                if self._unreleased:
                    memory_bytes += self._unreleased.pop(batch, 0)
                if batch in self.in_flight:
                    self._unreleased[batch] = memory_bytes
                elif memory_bytes:
                    # Without a response (acks=0) the end of the transmission is unknown.
                    buffer = batch.take_buffer() if self._reuses_buffers else None
                    granted += self._pool.deallocate(memory_bytes, buffer)
        for waiter in granted:
            waiter.wake()

    def _update_leader(
        self, batch: ProducerBatch, partition: PartitionProduceResponse, response: ProduceResponse
    ) -> None:
        """Use the current leader of the response, or request metadata."""
        leader = partition.current_leader
        if leader is not None and leader.leader_id >= 0:
            nodes = [Node(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints]
            topic_partition = TopicPartition(batch.topic, batch.partition)
            if self._network.update_leader(topic_partition, leader.leader_id, leader.leader_epoch, nodes):
                return
        self._network.request_update()

    # Expiry and close.

    def expire(self, now_ms: int) -> None:
        """Fail the batches whose ``delivery.timeout.ms`` has passed, queued or in flight."""
        if now_ms < self.expiry_check_ms and now_ms < self._accumulator.expiry_check_ms:
            return
        expired = self._expired_in_flight(now_ms) if now_ms >= self.expiry_check_ms else []
        with self._lock:
            expired += self._accumulator.take_expired(now_ms)
        for batch in _in_send_order(expired):
            self.fail(batch, _expiry_error(batch, now_ms), adjust_sequences=False)

    def _expired_in_flight(self, now_ms: int) -> list[ProducerBatch]:
        limit_ms = now_ms - self._delivery_timeout_ms
        newer = [created_ms for created_ms in self.in_flight.values() if created_ms > limit_ms]
        self.expiry_check_ms = min(newer) + self._delivery_timeout_ms if newer else NEVER_MS
        return [
            batch for batch, created_ms in self.in_flight.items() if created_ms <= limit_ms and not batch.done
        ]

    def fail_all(self, error: BaseException) -> None:
        """Fail all incomplete batches, in send order."""
        with self._lock:
            self._accumulator.take_all()
            batches = _in_send_order(self._accumulator.incomplete)
        for batch in batches:
            self.fail(batch, error, adjust_sequences=False)


def _in_send_order(batches: Iterable[ProducerBatch]) -> list[ProducerBatch]:
    """Return batches by age, then by sequence; batches without a sequence come after those with one."""
    return sorted(
        batches,
        key=lambda batch: (
            batch.created_ms,
            _AFTER_LAST_SEQUENCE if batch.base_sequence == NO_SEQUENCE else batch.base_sequence,
        ),
    )


def _expiry_error(batch: ProducerBatch, now_ms: int) -> TimedOut:
    what = (
        f"{batch.count} record(s) for {batch.topic}-{batch.partition} not delivered within"
        f" {now_ms - batch.created_ms} ms"
    )
    retry = batch.tag
    if isinstance(retry, Retry) and retry.cause is not None:
        return TimedOut(f"{what}; last attempt failed: {retry.cause}", code=retry.cause.code)
    return TimedOut(what)
