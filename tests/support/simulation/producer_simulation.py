"""Simulation of a sender around a transaction manager: the test controls brokers, network and time.

It keeps the sender's guarantees only: queues of batches per partition, one coordinator request at a time,
batches that are sent, retried in order, and completed once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from odradek.client.producer.transactions.request_queue import TransactionalRequestResult
from odradek.client.producer.transactions.transaction_manager import TransactionManager
from odradek.client.producer.transactions.transaction_manager_port import CoordinatorRequest
from odradek.model.client_errors import ClientError, RequestRefused, TimedOut
from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, TopicPartition

RETRY_BACKOFF_MS = 100
SILENT = frozenset({ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT})


class Batch:
    """A batch as the transaction manager sees it, and its result."""

    def __init__(self, name: str, partition: TopicPartition, count: int) -> None:
        self.name = name
        self.topic, self.partition = partition
        self.count = count
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.base_sequence = NO_SEQUENCE
        self.attempts = 0
        self.in_retry = False
        self.results: list[BaseException | None] = []

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def numbers(self) -> tuple[int, int, int]:
        return self.producer_id, self.producer_epoch, self.base_sequence

    def __repr__(self) -> str:
        return self.name


class ProducerSimulation:
    """``on_event`` is called with a description of each event."""

    def __init__(
        self, transactional_id: str | None, *, init_version_max: int = 5, retries: int = 1000
    ) -> None:
        self.manager = TransactionManager(transactional_id, 60_000, RETRY_BACKOFF_MS)
        self.now_ms = 0
        self.retries = retries
        self.queues: dict[TopicPartition, list[Batch]] = defaultdict(list)
        self.in_flight: dict[str, Batch] = {}
        self.batches: dict[str, Batch] = {}
        self.request_in_flight: CoordinatorRequest | None = None
        self.lost_coordinators: list[CoordinatorRequest] = []
        self.on_event: Callable[[str], None] = lambda _event: None
        self._init_version_max = init_version_max

    @property
    def incomplete(self) -> list[Batch]:
        return [batch for batch in self.batches.values() if not batch.results]

    # The application.

    def send(self, partition: TopicPartition, count: int, name: str = "") -> Batch:
        self.manager.before_append(partition)
        letter = chr(ord("a") + len(self.batches) % 26) + "'" * (len(self.batches) // 26)
        batch = Batch(name or letter, partition, count)
        self.batches[batch.name] = batch
        self.queues[partition].append(batch)
        return batch

    def watch(self, result: TransactionalRequestResult) -> None:
        def done() -> None:
            result.is_acked = True
            self.on_event(
                f"{result.call}: {'done' if result.error is None else describe_error(result.error)}"
            )

        result.when_done(done)

    # The sender.

    def run_once(self) -> None:
        """Run one sender iteration."""
        manager = self.manager
        manager.resolve_sequences(self.now_ms)
        if manager.fatal_error is not None:
            for batch in list(self.incomplete):
                self._fail(batch, manager.fatal_error, adjust_sequences=False)
        while (reason := manager.abort_reason) is not None and self._never_sent():
            self._fail(self._never_sent()[0], reason, adjust_sequences=False)
        if self.request_in_flight is None:
            self._send_request(manager.next_request(self.now_ms, has_incomplete=bool(self.incomplete)))
        for queue in self.queues.values():
            while queue and manager.may_drain(queue[0]):
                self._send_batch(queue.pop(0))

    def _never_sent(self) -> list[Batch]:
        return [
            batch for queue in self.queues.values() for batch in queue if batch.base_sequence == NO_SEQUENCE
        ]

    def _send_request(self, request: CoordinatorRequest | None) -> None:
        if request is None:
            return
        assert request.not_before_ms <= self.now_ms
        self.request_in_flight = request
        if request.key_type == 1:
            self.manager.coordinator_ready({22: range(self._init_version_max + 1)})
        self.on_event(f"send {format_request(request.request)}")

    def _send_batch(self, batch: Batch) -> None:
        self.manager.assign(batch)
        self.in_flight[batch.name] = batch
        batch.attempts += 1
        self.on_event(f"{batch.name} sent as {format_sequence(batch)}")

    # Brokers.

    def respond(self, response: Any | ClientError) -> None:
        request, self.request_in_flight = self.request_in_flight, None
        assert request is not None, "no request is in flight"
        self.manager.handle_response(request, response, self.now_ms)
        lost = self.manager.take_lost_coordinator()
        if lost is not None:
            self.lost_coordinators.append(lost)
            self.on_event("coordinator unknown")

    def acknowledge(self, batch: Batch, base_offset: int) -> None:
        self.in_flight.pop(batch.name)
        if not batch.results:
            self.manager.acknowledged(batch, base_offset)
            self._complete(batch, None)

    def respond_with_error(self, batch: Batch, code: ErrorCode, log_start_offset: int = 0) -> None:
        """Deliver an error response, or none for NETWORK_EXCEPTION."""
        self.in_flight.pop(batch.name)
        if batch.results:
            return
        if code is ErrorCode.MESSAGE_TOO_LARGE and batch.count > 1:
            self._split(batch)
        elif batch.attempts <= self.retries and self.manager.may_retry(batch, code, log_start_offset):
            batch.in_retry = True
            self._requeue(batch)
            self.manager.requeued(batch)
            self.on_event(f"{batch.name} requeued")
        elif code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self.manager.acknowledged(batch, -1)
            self._complete(batch, None)
        else:
            error = RequestRefused(code.name, code=code)
            self._fail(batch, error, adjust_sequences=batch.attempts <= self.retries)

    def _split(self, batch: Batch) -> None:
        """Replace a batch by two smaller ones with the same sequence numbers and position."""
        counts = (batch.count // 2, batch.count - batch.count // 2)
        partition = batch.topic_partition
        parts = [Batch(f"{batch.name}{half}", partition, count) for half, count in enumerate(counts)]
        sequence = batch.base_sequence
        for part in parts:
            part.producer_id, part.producer_epoch, part.base_sequence = (*batch.numbers[:2], sequence)
            sequence = (sequence + part.count) % (1 << 31)
        for part in reversed(parts):
            self._requeue(part)
        self.batches = {
            new.name: new for old in self.batches.values() for new in (parts if old is batch else [old])
        }
        self.manager.split(batch, parts)
        self.on_event(f"{batch.name} split into {' '.join(map(repr, parts))}")

    def _requeue(self, batch: Batch) -> None:
        queue = self.queues[batch.topic_partition]
        index = sum(
            1 for other in queue if other.base_sequence != NO_SEQUENCE and self._is_before(other, batch)
        )
        queue.insert(index, batch)

    def expire(self, batch: Batch) -> None:
        if not batch.results:
            self._fail(batch, TimedOut("delivery.timeout.ms"), adjust_sequences=False)

    def _is_before(self, first: Batch, second: Batch) -> bool:
        return 0 < (second.base_sequence - first.base_sequence) % (1 << 31) < 1 << 30

    def _fail(self, batch: Batch, error: BaseException, *, adjust_sequences: bool) -> None:
        queue = self.queues[batch.topic_partition]
        if batch in queue:
            queue.remove(batch)
        self.manager.failed(batch, error, adjust_sequences=adjust_sequences)
        self._complete(batch, error)

    def _complete(self, batch: Batch, error: BaseException | None) -> None:
        batch.results.append(error)
        self.on_event(f"{batch.name} {'written' if error is None else 'fails: ' + describe_error(error)}")


def describe_error(error: BaseException) -> str:
    code = getattr(error, "code", None)
    return type(error).__name__ if code is None else f"{type(error).__name__} {code.name}"


def format_sequence(batch: Batch) -> str:
    last = (batch.base_sequence + batch.count - 1) % (1 << 31)
    return f"{batch.producer_id}/{batch.producer_epoch} {batch.base_sequence}..{last}"


def format_request(request: Any) -> str:
    name = type(request).__name__.removesuffix("Request")
    if name == "AddPartitionsToTxn":
        places = [f"{t.name}-{p}" for t in request.v3_and_below_topics for p in t.partitions]
        identity = f"{request.v3_and_below_producer_id}/{request.v3_and_below_producer_epoch}"
        return f"{name} {identity} {' '.join(places)}"
    identity = f"{request.producer_id}/{request.producer_epoch}"
    if name == "InitProducerId":
        bumped = f" {identity}" if request.producer_id >= 0 else ""
        return f"{name} {request.transactional_id}{bumped}"
    if name == "EndTxn":
        return f"{name} {identity} {'commit' if request.committed else 'abort'}"
    if name == "AddOffsetsToTxn":
        return f"{name} {identity} {request.group_id}"
    places = [
        f"{t.name}-{p.partition_index}={p.committed_offset}" for t in request.topics for p in t.partitions
    ]
    member = f" as {request.member_id}/{request.generation_id}" if request.member_id else ""
    return f"{name} {identity} {request.group_id}{member} {' '.join(places)}"
