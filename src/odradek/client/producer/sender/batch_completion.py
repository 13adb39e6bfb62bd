"""What becomes of batches that have left: written, cut, sent again, or given up; and their memory with them.

Invariants: each batch that was opened is told of exactly once, before its memory is used again. The memory
of a batch in flight is given back when its request has ended, not before, even if the program was told
earlier that time is up.
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
    from odradek.records.codec import ProducerBatch
    from odradek.wire.messages.produce import PartitionProduceResponse, ProduceResponse

log = events.logger("producer")

_LAST: Final = 1 << 31
"""Beyond all sequences."""


Sent = ClusterMetadata
"""The network as it was known when a request was sent."""


class BatchCompletion:
    """Settles batches. ``has_trouble`` says that not all has gone well lately: numbers may be in doubt."""

    def __init__(
        self,
        network: NetworkClient,
        stock: SharedState,
        settings: Settings,
        entropy: Entropy,
        metrics: SenderMetrics,
    ) -> None:
        self._network = network
        self._accumulator = stock.accumulator
        self._pool = stock.pool
        self._packing = stock.packing
        self._growth = stock.growth
        self._lock = stock.lock
        self._order = stock.order
        self._settings = settings
        self._entropy = entropy
        self._metrics = metrics
        self._retries = settings[options.RETRIES]
        self._delivery_timeout_ms = settings[options.DELIVERY_TIMEOUT_MS]
        self._reuses_buffers = options.required_acks(settings) != 0
        self._owed: dict[ProducerBatch, int] = {}
        self.in_flight: dict[ProducerBatch, int] = {}
        """Batches whose request has not ended, with the time of their opening."""
        self.expiry_check_ms = NEVER_MS
        """No batch in flight expires before this."""
        self.has_trouble = False

    # Leaving and coming back.

    def left(self, batches: Sequence[ProducerBatch]) -> None:
        """A request has begun: its batches are read from their buffers until it ends."""
        for batch in batches:
            self.in_flight[batch] = batch.created_ms
        oldest_ms = min([batch.created_ms for batch in batches])
        self.expiry_check_ms = min(self.expiry_check_ms, oldest_ms + self._delivery_timeout_ms)

    def returned(self, batches: Sequence[ProducerBatch]) -> None:
        """A request has ended, one way or the other; what became of the batches is told next."""
        for batch in batches:
            del self.in_flight[batch]
        if not self.in_flight:
            self.expiry_check_ms = NEVER_MS

    def written(self, batches: Iterable[ProducerBatch]) -> None:
        """Without acknowledgements, what has left counts as written."""
        batches = list(batches)
        for batch in batches:
            self.acknowledge(batch, -1, -1)
        self.release(batches)

    def acknowledge(self, batch: ProducerBatch, base_offset: int, log_append_time: int) -> None:
        """Tell that a batch is written; ``release`` must follow."""
        if not batch.done:
            if self._order is not None:
                self._order.acknowledged(batch, base_offset)
            batch.complete(base_offset, log_append_time)

    def refused(
        self,
        batch: ProducerBatch,
        part: PartitionProduceResponse,
        answer: ProduceResponse,
        broker: str,
        sent: Sent,
        now_ms: int,
    ) -> None:
        """A broker answered with an error."""
        code = ErrorCode(part.error_code)
        if code.stale_metadata:
            self._learn_leader(batch, part, answer)
        error = batch_error(batch, code, part.error_message, broker)
        named = record_errors(batch, code, part.record_errors, broker)
        self._pass_judgement(batch, code, error, sent, now_ms, part, named)

    def unanswered(self, batch: ProducerBatch, failed: ClientError, sent: Sent, now_ms: int) -> None:
        """No answer came, or nothing could be sent."""
        code = ErrorCode.NETWORK_EXCEPTION
        if isinstance(failed, TimedOut):
            code = ErrorCode.REQUEST_TIMED_OUT
        elif not isinstance(failed, ConnectionFailed):
            code = failed.code or ErrorCode.UNSUPPORTED_VERSION
        if code.stale_metadata or isinstance(failed, TimedOut):
            self._network.request_update()
        self._pass_judgement(batch, code, failed, sent, now_ms)

    def _pass_judgement(
        self,
        batch: ProducerBatch,
        code: ErrorCode,
        error: ClientError,
        sent: Sent,
        now_ms: int,
        part: PartitionProduceResponse | None = None,
        named: Any = None,
    ) -> None:
        has_attempts = batch.attempts < self._retries
        has_time = batch.created_ms + self._delivery_timeout_ms > now_ms
        verdict = batch_action(
            batch,
            code,
            -1 if part is None else part.log_start_offset,
            may_be_tried=has_attempts and has_time and not batch.done,
            order=self._order,
        )
        self.has_trouble = True
        if verdict is BatchAction.WRITTEN:
            self.acknowledge(batch, -1 if part is None else part.base_offset, -1)
            self.release([batch])
        elif verdict is BatchAction.SPLIT:
            self._split(batch)
        elif verdict is BatchAction.RETRY:
            self._requeue(batch, error, sent, now_ms)
        else:
            self.fail(batch, error, adjust_sequences=has_attempts, named=named)

    def fail(
        self, batch: ProducerBatch, error: BaseException, *, adjust_sequences: bool, named: Any = None
    ) -> None:
        self.has_trouble = True
        if not batch.done:
            self._metrics.failed(batch)
            if self._order is not None:
                self._order.failed(batch, error, adjust_sequences=adjust_sequences)
            if named is None:
                batch.fail(error)
            else:
                batch.fail_records(*named)
        self.release([batch])

    def _requeue(self, batch: ProducerBatch, error: ClientError, sent: Sent, now_ms: int) -> None:
        rest_ms = backoff(batch.attempts, self._settings, self._entropy)
        batch.attempts += 1
        self._metrics.retried(batch)
        # The leader that was asked: if there is another by now, there is no reason to rest.
        epoch = sent.leader(TopicPartition(batch.topic, batch.partition))[1]
        log.debug("batch_retried", partition=f"{batch.topic}-{batch.partition}", reason=str(error))
        with self._lock:
            self._accumulator.requeue(batch, Retry(now_ms + rest_ms, epoch, error))
        if self._order is not None:
            self._order.requeued(batch)

    def _split(self, batch: ProducerBatch) -> None:
        self._packing.was_too_large(batch.topic)
        self._growth.was_too_large(batch.topic, batch.size_bytes)
        self._metrics.split()
        with self._lock:
            parts = self._accumulator.split(batch)
        if self._order is not None:
            self._order.split(batch, parts)
        self.release([batch])

    def release(self, batches: Sequence[ProducerBatch]) -> None:
        """Count batches out. Their memory follows now, or when their request has ended."""
        granted: list[Waiter] = []
        with self._lock:
            for batch in batches:
                memory_bytes = self._accumulator.completed(batch)
                if self._owed:
                    memory_bytes += self._owed.pop(batch, 0)
                if batch in self.in_flight:
                    self._owed[batch] = memory_bytes
                elif memory_bytes:
                    # Without an answer nobody knows when the last byte has left.
                    buffer = batch.take_buffer() if self._reuses_buffers else None
                    granted += self._pool.give_back(memory_bytes, buffer)
        for waiter in granted:
            waiter.wake()

    def _learn_leader(
        self, batch: ProducerBatch, part: PartitionProduceResponse, answer: ProduceResponse
    ) -> None:
        """A broker that is not the leader may name it; otherwise metadata will."""
        named = part.current_leader
        if named is not None and named.leader_id >= 0:
            places = [Node(one.node_id, one.host, one.port, one.rack) for one in answer.node_endpoints]
            partition = TopicPartition(batch.topic, batch.partition)
            if self._network.update_leader(partition, named.leader_id, named.leader_epoch, places):
                return
        self._network.request_update()

    # Ends.

    def expire(self, now_ms: int) -> None:
        """Give up batches whose ``delivery.timeout.ms`` is over, also those whose answer is due."""
        if now_ms < self.expiry_check_ms and now_ms < self._accumulator.expiry_check_ms:
            return
        late = self._late_in_flight(now_ms) if now_ms >= self.expiry_check_ms else []
        with self._lock:
            late += self._accumulator.expired(now_ms)
        for batch in _in_order(late):
            self.fail(batch, _expiry(batch, now_ms), adjust_sequences=False)

    def _late_in_flight(self, now_ms: int) -> list[ProducerBatch]:
        bound_ms = now_ms - self._delivery_timeout_ms
        young = [created_ms for created_ms in self.in_flight.values() if created_ms > bound_ms]
        self.expiry_check_ms = min(young) + self._delivery_timeout_ms if young else NEVER_MS
        return [one for one, created_ms in self.in_flight.items() if created_ms <= bound_ms and not one.done]

    def fail_all(self, error: BaseException) -> None:
        """Fail everything that is not answered yet, in the order of sending."""
        with self._lock:
            self._accumulator.take_all()
            batches = _in_order(self._accumulator.incomplete)
        for batch in batches:
            self.fail(batch, error, adjust_sequences=False)


def _in_order(batches: Iterable[ProducerBatch]) -> list[ProducerBatch]:
    """As they were sent: by age, and by number where there are numbers, which later ones have not got yet."""
    return sorted(
        batches,
        key=lambda one: (one.created_ms, _LAST if one.base_sequence == NO_SEQUENCE else one.base_sequence),
    )


def _expiry(batch: ProducerBatch, now_ms: int) -> TimedOut:
    what = (
        f"{batch.count} record(s) for {batch.topic}-{batch.partition} were not delivered within"
        f" {now_ms - batch.created_ms} ms"
    )
    retry = batch.tag
    if isinstance(retry, Retry) and retry.because is not None:
        return TimedOut(f"{what}; the last attempt failed: {retry.because}", code=retry.because.code)
    return TimedOut(what)
