"""Produce, versions 0 to 11: append batches to the partitions this broker leads.

v2 adds the append time to the answer, v3 the transactional id and magic 2 (one batch a partition), v5 the log
start offset, v7 zstd, v8 the records that were at fault, v9 is flexible, v10 names the new leader on a stale
one. Versions 0 to 2 carry message sets of magic 0 and 1, converted on append.

Each partition succeeds or fails alone. acks=0 gets no answer: an error closes the connection instead, so that
the producer looks up its leaders again. acks=all waits for the in-sync replicas in the produce purgatory.
Where ``flush.messages`` asks for a flush, every answer waits for that first, with no bound but the disk's:
the time a producer grants is for replicas.
"""

from __future__ import annotations

from functools import partial

from odradek.broker.dispatch import Call, NoAnswer
from odradek.broker.pending import Pending
from odradek.model.errors import BrokerError, ErrorCode, StorageError
from odradek.model.ids import INTERNAL_TOPICS
from odradek.model.levels import ACKS_ALL, ACKS_NONE
from odradek.records.validation import RecordErrors
from odradek.replication.acks import are_acks_known
from odradek.replication.delayed_produce import AwaitedAppend, DelayedProduce
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

Result = ProduceResponse | NoAnswer | Pending[ProduceResponse]


def produce(request: ProduceRequest, call: Call) -> Result:
    acks = request.acks
    if not are_acks_known(acks):
        return refuse(request, ErrorCode.INVALID_REQUIRED_ACKS, f"acks must be -1, 0 or 1, is {acks}")
    waiting: list[AwaitedAppend] = []
    unflushed: list[AwaitedAppend] = []
    now_ms = call.broker.clock.wall_ms()
    topics = []
    for topic in request.topic_data:
        name = topic.name
        entries = [
            _append(name, data, acks, now_ms, call, waiting, unflushed) for data in topic.partition_data
        ]
        topics.append(TopicProduceResponse(name, entries))
    response = ProduceResponse(topics)
    if unflushed:
        return _flush_first(request, response, unflushed, waiting, call)
    if acks == ACKS_NONE:
        return NoAnswer(_first_error(response))
    if not waiting:
        return response
    return _wait(request, response, waiting, call, Pending())


def _append(
    topic: str,
    data: PartitionProduceData,
    acks: int,
    now_ms: int,
    call: Call,
    waiting: list[AwaitedAppend],
    unflushed: list[AwaitedAppend],
) -> PartitionProduceResponse:
    """Append to one partition and give its entry of the answer."""
    index = data.index
    replicas = call.broker.replicas
    try:
        if topic in INTERNAL_TOPICS and call.client_id != ADMIN_CLIENT_ID:
            raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} belongs to the brokers")
        partition = replicas.leader_of(topic, index)
        appended = partition.append(data.records, acks, call.version, now_ms)
    except BrokerError as refused:
        return _refused(index, refused)
    entry = PartitionProduceResponse(
        index, 0, appended.first_offset, appended.append_time_ms, partition.log.log_start_offset
    )
    replicas.appended(partition)
    if partition.awaits_flush:
        unflushed.append(AwaitedAppend(partition, appended.last_offset + 1, entry))
    if acks == ACKS_ALL and partition.log.high_watermark <= appended.last_offset:
        waiting.append(AwaitedAppend(partition, appended.last_offset + 1, entry))
    return entry


def _refused(index: int, refused: BrokerError) -> PartitionProduceResponse:
    entry = PartitionProduceResponse(index, refused.code, -1)
    entry.error_message = refused.message
    if isinstance(refused, RecordErrors):
        entry.record_errors = [
            BatchIndexAndErrorMessage(record_index, why) for record_index, why in refused.record_errors
        ]
    return entry


def _flush_first(
    request: ProduceRequest,
    response: ProduceResponse,
    unflushed: list[AwaitedAppend],
    waiting: list[AwaitedAppend],
    call: Call,
) -> NoAnswer | Pending[ProduceResponse]:
    """Let the answer wait until its records are on the disk; then go on as if they had been at once."""
    pending: Pending[ProduceResponse] = Pending()
    left = len(unflushed)

    def told(awaited: AwaitedAppend, failure: StorageError | None) -> None:
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
    waiting: list[AwaitedAppend],
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
