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
        self.machine = TransactionManager(transactional_id, 60_000, RETRY_BACKOFF_MS)
        self.now_ms = 0
        self.retries = retries
        self.lines: dict[TopicPartition, list[Batch]] = defaultdict(list)
        self.in_flight: dict[str, Batch] = {}
        self.batches: dict[str, Batch] = {}
        self.asked: CoordinatorRequest | None = None
        self.forgotten: list[CoordinatorRequest] = []
        self.on_event: Callable[[str], None] = lambda _event: None
        self._init_version_max = init_version_max

    @property
    def incomplete(self) -> list[Batch]:
        return [batch for batch in self.batches.values() if not batch.results]

    # The application.

    def send(self, partition: TopicPartition, count: int, name: str = "") -> Batch:
        self.machine.before_append(partition)
        letter = chr(ord("a") + len(self.batches) % 26) + "'" * (len(self.batches) // 26)
        batch = Batch(name or letter, partition, count)
        self.batches[batch.name] = batch
        self.lines[partition].append(batch)
        return batch

    def watch(self, operation: TransactionalRequestResult) -> None:
        def done() -> None:
            operation.is_acked = True
            self.on_event(f"{operation.call}: {'done' if operation.error is None else told(operation.error)}")

        operation.when_done(done)

    # The sender.

    def look(self) -> None:
        """Run one sender iteration."""
        machine = self.machine
        machine.resolve_sequences(self.now_ms)
        if machine.fatal_error is not None:
            for batch in list(self.incomplete):
                self._fail(batch, machine.fatal_error, adjust_sequences=False)
        while (reason := machine.abort_reason) is not None and self._never_sent():
            self._fail(self._never_sent()[0], reason, adjust_sequences=False)
        if self.asked is None:
            self._ask(machine.next_request(self.now_ms, has_incomplete=bool(self.incomplete)))
        for line in self.lines.values():
            while line and machine.may_drain(line[0]):
                self._leave(line.pop(0))

    def _never_sent(self) -> list[Batch]:
        return [one for line in self.lines.values() for one in line if one.base_sequence == NO_SEQUENCE]

    def _ask(self, asked: CoordinatorRequest | None) -> None:
        if asked is None:
            return
        assert asked.not_before_ms <= self.now_ms
        self.asked = asked
        if asked.key_type == 1:
            self.machine.coordinator_ready({22: range(self._init_version_max + 1)})
        self.on_event(f"ask {shown_request(asked.request)}")

    def _leave(self, batch: Batch) -> None:
        self.machine.assign(batch)
        self.in_flight[batch.name] = batch
        batch.attempts += 1
        self.on_event(f"{batch.name} leaves as {shown_numbers(batch)}")

    # Brokers.

    def answer(self, answer: Any | ClientError) -> None:
        asked, self.asked = self.asked, None
        assert asked is not None, "nothing was asked"
        self.machine.handle_response(asked, answer, self.now_ms)
        moved = self.machine.take_lost_coordinator()
        if moved is not None:
            self.forgotten.append(moved)
            self.on_event("forget the coordinator")

    def written(self, batch: Batch, base_offset: int) -> None:
        self.in_flight.pop(batch.name)
        if not batch.results:
            self.machine.acknowledged(batch, base_offset)
            self._end(batch, None)

    def refused(self, batch: Batch, code: ErrorCode, log_start_offset: int = 0) -> None:
        """Deliver an error response, or none for NETWORK_EXCEPTION."""
        self.in_flight.pop(batch.name)
        if batch.results:
            return
        if code is ErrorCode.MESSAGE_TOO_LARGE and batch.count > 1:
            self._split(batch)
        elif batch.attempts <= self.retries and self.machine.may_retry(batch, code, log_start_offset):
            batch.in_retry = True
            self._put_back(batch)
            self.machine.requeued(batch)
            self.on_event(f"{batch.name} comes back")
        elif code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self.machine.acknowledged(batch, -1)
            self._end(batch, None)
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
            self._put_back(part)
        self.batches = {
            one.name: one for old in self.batches.values() for one in (parts if old is batch else [old])
        }
        self.machine.split(batch, parts)
        self.on_event(f"{batch.name} is cut into {' '.join(map(repr, parts))}")

    def _put_back(self, batch: Batch) -> None:
        line = self.lines[batch.topic_partition]
        at = sum(1 for one in line if one.base_sequence != NO_SEQUENCE and self._is_before(one, batch))
        line.insert(at, batch)

    def expire(self, batch: Batch) -> None:
        if not batch.results:
            self._fail(batch, TimedOut("delivery.timeout.ms"), adjust_sequences=False)

    def _is_before(self, one: Batch, other: Batch) -> bool:
        return 0 < (other.base_sequence - one.base_sequence) % (1 << 31) < 1 << 30

    def _fail(self, batch: Batch, error: BaseException, *, adjust_sequences: bool) -> None:
        line = self.lines[batch.topic_partition]
        if batch in line:
            line.remove(batch)
        self.machine.failed(batch, error, adjust_sequences=adjust_sequences)
        self._end(batch, error)

    def _end(self, batch: Batch, error: BaseException | None) -> None:
        batch.results.append(error)
        self.on_event(f"{batch.name} {'written' if error is None else 'fails: ' + told(error)}")


def told(error: BaseException) -> str:
    code = getattr(error, "code", None)
    return type(error).__name__ if code is None else f"{type(error).__name__} {code.name}"


def shown_numbers(batch: Batch) -> str:
    last = (batch.base_sequence + batch.count - 1) % (1 << 31)
    return f"{batch.producer_id}/{batch.producer_epoch} {batch.base_sequence}..{last}"


def shown_request(request: Any) -> str:
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
