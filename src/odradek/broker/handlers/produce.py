"""Produce, versions 0 to 11: append batches to the partitions this broker leads.

v2 adds the append time to the answer, v3 the transactional id and magic 2 (one batch a partition), v5 the log
start offset, v7 zstd, v8 the records that were at fault, v9 is flexible, v10 names the new leader on a stale
one. Versions 0 to 2 carry message sets of magic 0 and 1, converted on append.

Each partition succeeds or fails alone. Records that take long to validate are validated on threads, in order
per partition and connection; the loop serves other requests meanwhile. acks=0 gets no answer: an error closes
the connection instead, so that the producer looks up its leaders again. acks=all waits for the in-sync
replicas in the produce purgatory. Where ``flush.messages`` asks for a flush, every answer waits for that
first, with no bound but the disk's: the time a producer grants is for replicas.

The first write of a transaction to a partition is let through by the transaction's coordinator; without a
transactional id in the request, nothing of a transaction is written at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from odradek.broker.coordinators.transaction_verification import transaction_check
from odradek.broker.requests.dispatcher import Call, NoAnswer
from odradek.broker.requests.pending_response import Pending
from odradek.log.log import LogAppendInfo
from odradek.model.errors import BrokerError, ErrorCode, StorageError
from odradek.model.ids import INTERNAL_TOPICS, TopicPartition
from odradek.model.protocol_enums import ACKS_ALL, ACKS_NONE
from odradek.records.append_rules import RecordValidationError, WorkLimitExceeded
from odradek.records.batch_producer import BatchProducer, is_transactional, transactional_producer
from odradek.replication.acks import is_valid_required_acks
from odradek.replication.append_queue import AppendResult, QueuedAppend
from odradek.replication.delayed_produce import DelayedProduce, ProducePartitionStatus
from odradek.replication.partition import Partition
from odradek.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

ADMIN_CLIENT_ID = "__admin_client"
"""The one client that may write to internal topics."""

ABORTABLE_SINCE: Final = 11

COORDINATOR_AWAY: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Answers of coordinators upon which a producer should just try again, which it does not expect here."""

ROUTINE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    }
)
"""Refusals that are part of a producer's day: it looks for the leader, or tries again."""

Refusals = Mapping[TopicPartition, ErrorCode]
Answer = ProduceResponse | NoAnswer | Pending[ProduceResponse]
Result = Answer | Pending[Answer]


def produce(request: ProduceRequest, call: Call) -> Result | Pending[Result]:
    if not is_valid_required_acks(request.acks):
        return refuse(request, ErrorCode.INVALID_REQUIRED_ACKS, f"acks must be -1, 0 or 1, is {request.acks}")
    if request.transactional_id is None:
        return _append_all(request, call, None)
    return _verify_first(request, request.transactional_id, call)


def _verify_first(request: ProduceRequest, transactional_id: str, call: Call) -> Result | Pending[Result]:
    """Have the coordinator let through what would begin a transaction in a partition, and append the rest."""
    authors: set[BatchProducer] = set()
    partitions: list[Partition] = []
    for topic in request.topic_data:
        for data in topic.partition_data:
            author = transactional_producer(data.records)
            if author is None:
                continue
            authors.add(author)
            partition = call.broker.replicas.find(topic.name, data.index)
            if partition is not None:
                partitions.append(partition)
    if len(authors) > 1:
        raise BrokerError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING, "transactional records of more than one producer"
        )
    if not partitions:
        return _append_all(request, call, {})
    pending: Pending[Result] = Pending()
    call.broker.verification.verify(
        transactional_id,
        authors.pop(),
        partitions,
        lambda refusals: pending.complete(_append_all(request, call, refusals)),
        knows_abortable=call.version >= ABORTABLE_SINCE,
    )
    return pending


def _append_all(request: ProduceRequest, call: Call, refusals: Refusals | None) -> Result:
    """Append to all partitions but those refused. ``refusals`` is None outside of transactions."""
    waiting: list[ProducePartitionStatus] = []
    unflushed: list[ProducePartitionStatus] = []
    queued: list[QueuedAppends] = []
    now_ms = call.broker.clock.wall_ms()
    topics = []
    for topic in request.topic_data:
        name = topic.name
        entries = [
            _append(name, data, request, now_ms, call, waiting, unflushed, queued, refusals)
            for data in topic.partition_data
        ]
        topics.append(TopicProduceResponse(name, entries))
    response = ProduceResponse(topics)
    if queued:
        return queued[0].then(lambda: _answer(request, response, call, waiting, unflushed))
    if waiting or unflushed or request.acks == ACKS_NONE:
        return _answer(request, response, call, waiting, unflushed)
    return response


def _answer(
    request: ProduceRequest,
    response: ProduceResponse,
    call: Call,
    waiting: list[ProducePartitionStatus],
    unflushed: list[ProducePartitionStatus],
) -> Answer:
    """Give the answer, or what it waits for, once all was appended."""
    if unflushed:
        return _flush_first(request, response, unflushed, waiting, call)
    if request.acks == ACKS_NONE:
        return NoAnswer(_first_error(response))
    return _wait(request, response, waiting, call, Pending()) if waiting else response


def _append(
    topic: str,
    data: PartitionProduceData,
    request: ProduceRequest,
    now_ms: int,
    call: Call,
    waiting: list[ProducePartitionStatus],
    unflushed: list[ProducePartitionStatus],
    queued: list[QueuedAppends],
    refusals: Refusals | None,
) -> PartitionProduceResponse:
    """Append to one partition and give its entry of the answer."""
    index, acks = data.index, request.acks
    replicas = call.broker.replicas
    try:
        if refusals is None:
            if is_transactional(data.records):
                raise BrokerError(
                    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "no transactional id was given"
                )
        elif refusals and (topic, index) in refusals:
            raise _as_producers_know(refusals[TopicPartition(topic, index)])
        if topic in INTERNAL_TOPICS and call.client_id != ADMIN_CLIENT_ID:
            raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} belongs to the brokers")
        partition = replicas.get_leader_partition(topic, index)
        if partition.queued_appends and replicas.must_queue_append(partition, call.session):
            raise WorkLimitExceeded
        appended = partition.append(data.records, acks, call.version, now_ms)
    except BrokerError as refused:
        _trace(topic, index, refused, call)
        return _refused(index, refused)
    except WorkLimitExceeded:
        if not queued:
            queued.append(QueuedAppends(acks, call, waiting, unflushed))
        return queued[0].add(partition, data, in_transaction=refusals is not None)
    entry = PartitionProduceResponse(
        index, 0, appended.first_offset, appended.append_time_ms, partition.log.log_start_offset
    )
    replicas.appended(partition)
    if partition.is_flush_pending:
        unflushed.append(ProducePartitionStatus(partition, appended.last_offset + 1, entry))
    if acks == ACKS_ALL and partition.log.high_watermark <= appended.last_offset:
        waiting.append(ProducePartitionStatus(partition, appended.last_offset + 1, entry))
    return entry


class QueuedAppends:
    """The appends of one request whose records are validated on threads, or that wait behind such appends."""

    __slots__ = ("_acks", "_answer", "_call", "_close", "_count", "_pending", "_unflushed", "_waiting")

    def __init__(
        self,
        acks: int,
        call: Call,
        waiting: list[ProducePartitionStatus],
        unflushed: list[ProducePartitionStatus],
    ) -> None:
        self._acks = acks
        self._call = call
        self._waiting = waiting
        self._unflushed = unflushed
        self._count = 0
        self._close: str | None = None
        self._answer: Callable[[], Answer] | None = None
        self._pending: Pending[Answer] = Pending()

    def add(
        self, partition: Partition, data: PartitionProduceData, *, in_transaction: bool
    ) -> PartitionProduceResponse:
        """Append when it is this one's turn; give the entry of the answer that is filled in then."""
        entry = PartitionProduceResponse(data.index, 0, -1)
        self._count += 1
        author = transactional_producer(data.records) if in_transaction else None
        append = QueuedAppend(
            b"" if data.records is None else data.records,
            self._acks,
            self._call.version,
            # What the coordinator let through may be ended by a marker meanwhile.
            _nothing_to_check if author is None else transaction_check(partition, author.producer_id),
            partial(self._told, partition, entry),
        )
        self._call.broker.replicas.queue_append(partition, self._call.session, append)
        return entry

    def then(self, answer: Callable[[], Answer]) -> Pending[Answer]:
        """Give what ``answer`` comes to once all are done."""
        self._answer = answer
        return self._pending

    def _told(self, partition: Partition, entry: PartitionProduceResponse, result: AppendResult) -> None:
        if result is None:
            self._close = "Produce failed inside the broker"
        elif isinstance(result, BrokerError):
            _trace(*partition.topic_partition, result, self._call)
            _fill_refusal(entry, result)
        else:
            self._appended(partition, entry, result)
        self._count -= 1
        if not self._count:
            assert self._answer is not None, "appends are told of in a later turn of the loop"
            self._pending.complete(self._answer() if self._close is None else NoAnswer(self._close))

    def _appended(
        self, partition: Partition, entry: PartitionProduceResponse, appended: LogAppendInfo
    ) -> None:
        entry.base_offset = appended.first_offset
        entry.log_append_time_ms = appended.append_time_ms
        entry.log_start_offset = partition.log.log_start_offset
        self._call.broker.replicas.appended(partition)
        if partition.is_flush_pending:
            self._unflushed.append(ProducePartitionStatus(partition, appended.last_offset + 1, entry))
        if self._acks == ACKS_ALL and partition.log.high_watermark <= appended.last_offset:
            self._waiting.append(ProducePartitionStatus(partition, appended.last_offset + 1, entry))


def _nothing_to_check() -> None:
    pass


def _as_producers_know(code: ErrorCode) -> BrokerError:
    """What a producer is told when the coordinator does not let a write through."""
    if code in COORDINATOR_AWAY:
        return BrokerError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"it cannot be verified now that the partition is in the transaction: {code.name}",
        )
    if code is ErrorCode.INVALID_TXN_STATE:
        return BrokerError(code, "the partition is not in the transaction")
    return BrokerError(code)


def _trace(topic: str, index: int, refused: BrokerError, call: Call) -> None:
    """Leave a line in the broker's log, unless there are enough of this error already."""
    if refused.code not in ROUTINE:
        call.broker.refusals.warning(
            "batch_rejected",
            refused.code.name,
            partition=f"{topic}-{index}",
            error=refused.code.name,
            client_id=call.client_id,
            peer=call.session.peer,
            reason=refused.message,
        )


def _refused(index: int, refused: BrokerError) -> PartitionProduceResponse:
    entry = PartitionProduceResponse(index, refused.code, -1)
    _fill_refusal(entry, refused)
    return entry


def _fill_refusal(entry: PartitionProduceResponse, refused: BrokerError) -> None:
    entry.error_code = refused.code
    entry.error_message = refused.message
    if isinstance(refused, RecordValidationError):
        entry.record_errors = [
            BatchIndexAndErrorMessage(record_index, why) for record_index, why in refused.record_errors
        ]


def _flush_first(
    request: ProduceRequest,
    response: ProduceResponse,
    unflushed: list[ProducePartitionStatus],
    waiting: list[ProducePartitionStatus],
    call: Call,
) -> NoAnswer | Pending[ProduceResponse]:
    """Let the answer wait until its records are on the disk; then go on as if they had been at once."""
    pending: Pending[ProduceResponse] = Pending()
    left = len(unflushed)

    def told(awaited: ProducePartitionStatus, failure: StorageError | None) -> None:
        nonlocal left
        left -= 1
        if failure is not None:
            entry = awaited.entry
            entry.error_code, entry.base_offset = ErrorCode.KAFKA_STORAGE_ERROR, -1
            entry.error_message = str(failure)
        if left == 0 and request.acks != ACKS_NONE:
            still = [one for one in waiting if not one.entry.error_code]
            if still:
                _wait(request, response, still, call, pending)
            else:
                pending.complete(response)

    for awaited in unflushed:
        call.broker.replicas.flush(awaited.partition, partial(told, awaited))
    # Who wants no answer gets none; a log that failed refuses the next append, and that ends the connection.
    return NoAnswer(_first_error(response)) if request.acks == ACKS_NONE else pending


def _wait(
    request: ProduceRequest,
    response: ProduceResponse,
    waiting: list[ProducePartitionStatus],
    call: Call,
    pending: Pending[ProduceResponse],
) -> Pending[ProduceResponse]:
    delayed = DelayedProduce(waiting, lambda: pending.complete(response))
    call.broker.replicas.delay_produce(delayed, [w.partition for w in waiting], request.timeout_ms)
    return pending


def _first_error(response: ProduceResponse) -> str | None:
    """Why an unanswered produce must end its connection, if any partition refused it."""
    for topic in response.responses:
        for entry in topic.partition_responses:
            if entry.error_code:
                name = ErrorCode(entry.error_code).name
                return f"produce with acks=0 to {topic.name}-{entry.index} failed with {name}"
    return None


def refuse(request: ProduceRequest, code: ErrorCode, message: str | None) -> ProduceResponse | NoAnswer:
    if request.acks == ACKS_NONE:
        return NoAnswer(message or code.name)
    error = BrokerError(code, message)
    return ProduceResponse(
        [
            TopicProduceResponse(topic.name, [_refused(data.index, error) for data in topic.partition_data])
            for topic in request.topic_data
        ]
    )
