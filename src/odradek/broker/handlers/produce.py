"""Produce, versions 0 to 11: append batches to the partitions this broker leads.

v2 adds the append time to the response, v3 the transactional id and magic 2 (one batch per partition), v5 the
log start offset, v7 zstd, v8 record errors, v9 is flexible, v10 adds the current leader. Versions 0 to 2 have
message sets of magic 0 and 1, up-converted on append.

Partitions succeed or fail independently. Records that take long to validate are validated on threads, in
order per partition and connection; the loop serves other requests meanwhile. acks=0 gets no response: an
error closes the connection instead, so that the producer refreshes its metadata. acks=all waits for the
in-sync replicas in the produce purgatory. With ``flush.messages``, the response waits for the flush first,
without a time limit: the timeout of the request applies to replicas.

The first write of a transaction to a partition is verified with the transaction coordinator; transactional
records without a transactional id in the request are rejected.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from odradek.broker.handlers.produce_errors import (
    error_entry,
    first_error,
    log_rejected_batch,
    name_current_leader,
    name_leaders,
    verification_error,
)
from odradek.broker.handlers.queued_appends import QueuedAppends, Response
from odradek.broker.requests.authorization import NO_NAMES, denial
from odradek.broker.requests.dispatcher import NoResponse, RequestContext
from odradek.broker.requests.pending_response import PendingResponse
from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import BrokerError, ErrorCode, StorageError
from odradek.model.ids import INTERNAL_TOPICS, TopicPartition
from odradek.model.protocol_enums import ACKS_ALL, ACKS_NONE
from odradek.records.append_rules import WorkLimitExceeded
from odradek.records.batch_producer import BatchProducer, is_transactional, transactional_producer
from odradek.replication.acks import is_valid_required_acks
from odradek.replication.delayed.delayed_produce import (
    DelayedProduce,
    ProducePartitionStatus,
    required_offsets,
)
from odradek.replication.partition import Partition
from odradek.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

ADMIN_CLIENT_ID = "__admin_client"
"""Client id that may write to internal topics."""

ABORTABLE_SINCE: Final = 11

PartitionErrors = Mapping[TopicPartition, ErrorCode]
Result = Response | PendingResponse[Response]


def produce(request: ProduceRequest, context: RequestContext) -> Result | PendingResponse[Result]:
    if not is_valid_required_acks(request.acks):
        return error_response(
            request, ErrorCode.INVALID_REQUIRED_ACKS, f"acks must be -1, 0 or 1, got {request.acks}"
        )
    denied = NO_NAMES if context.authorizer is None else _authorize(request, context)
    if request.transactional_id is None:
        return _append_all(request, context, denied, None)
    return _verify_and_append(request, request.transactional_id, denied, context)


def _authorize(request: ProduceRequest, context: RequestContext) -> frozenset[str]:
    """Return the topics that the sender may not write to; require the transactional id, if it matters."""
    transactional_id = request.transactional_id
    if any(is_transactional(data.records) for topic in request.topic_data for data in topic.partition_data):
        if transactional_id is None:
            raise denial(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID)
        context.require(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, transactional_id)
    names = [topic.name for topic in request.topic_data]
    return context.denied(AclOperation.WRITE, AclResourceType.TOPIC, names)


def _verify_and_append(
    request: ProduceRequest, transactional_id: str, denied: frozenset[str], context: RequestContext
) -> Result | PendingResponse[Result]:
    """Verify the first writes of a transaction with its coordinator, then append."""
    producers: set[BatchProducer] = set()
    partitions: list[Partition] = []
    for topic in request.topic_data:
        if denied and topic.name in denied:
            continue
        for data in topic.partition_data:
            producer = transactional_producer(data.records)
            if producer is None:
                continue
            producers.add(producer)
            partition = context.broker.replica_manager.get_partition(topic.name, data.index)
            if partition is not None:
                partitions.append(partition)
    if len(producers) > 1:
        raise BrokerError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            "transactional records must be of one producer, got several",
        )
    if not partitions:
        return _append_all(request, context, denied, {})
    pending: PendingResponse[Result] = PendingResponse()
    context.broker.transaction_verification.verify(
        transactional_id,
        producers.pop(),
        partitions,
        lambda verification_errors: pending.complete(
            _append_all(request, context, denied, verification_errors)
        ),
        source=context.session,
        supports_abortable=context.version >= ABORTABLE_SINCE,
    )
    return pending


def _append_all(
    request: ProduceRequest,
    context: RequestContext,
    denied: frozenset[str],
    verification_errors: PartitionErrors | None,
) -> Result:
    """Append to all partitions except rejected ones, and those of topics in ``denied``.

    There is no transaction if ``verification_errors`` is None.
    """
    waiting: list[ProducePartitionStatus] = []
    unflushed: list[ProducePartitionStatus] = []
    queued: list[QueuedAppends] = []
    now_ms = context.broker.clock.wall_ms()
    topics: list[TopicProduceResponse] = []
    response = ProduceResponse(topics)
    acks = request.acks
    for topic in request.topic_data:
        name = topic.name
        if denied and name in denied:
            error = BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            entries = [error_entry(data.index, error) for data in topic.partition_data]
            topics.append(TopicProduceResponse(name, entries))
            continue
        entries = [
            _append(
                name, data, acks, now_ms, context, response, waiting, unflushed, queued, verification_errors
            )
            for data in topic.partition_data
        ]
        topics.append(TopicProduceResponse(name, entries))
    if queued:
        return queued[0].then(
            lambda: _respond(request, name_leaders(response, context), context, waiting, unflushed)
        )
    if waiting or unflushed or acks == ACKS_NONE:
        return _respond(request, response, context, waiting, unflushed)
    return response


def _respond(
    request: ProduceRequest,
    response: ProduceResponse,
    context: RequestContext,
    waiting: list[ProducePartitionStatus],
    unflushed: list[ProducePartitionStatus],
) -> Response:
    """Return the response, or what it waits for, once everything is appended."""
    if unflushed:
        return _respond_after_flush(request, response, unflushed, waiting, context)
    if request.acks == ACKS_NONE:
        return NoResponse(first_error(response))
    return (
        _respond_after_replication(request, response, waiting, context, PendingResponse())
        if waiting
        else response
    )


def _append(
    topic: str,
    data: PartitionProduceData,
    acks: int,
    now_ms: int,
    context: RequestContext,
    response: ProduceResponse,
    waiting: list[ProducePartitionStatus],
    unflushed: list[ProducePartitionStatus],
    queued: list[QueuedAppends],
    verification_errors: PartitionErrors | None,
) -> PartitionProduceResponse:
    """Append to one partition; return its entry of the response."""
    index = data.index
    replica_manager = context.broker.replica_manager
    try:
        if verification_errors is None:
            if is_transactional(data.records):
                raise BrokerError(
                    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                    "transactional records need a transactional id, got null",
                )
        elif verification_errors and (topic, index) in verification_errors:
            raise verification_error(verification_errors[TopicPartition(topic, index)])
        if topic in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT_ID:
            raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is an internal topic")
        partition = replica_manager.get_leader_partition(topic, index)
        if partition.queued_appends and replica_manager.must_queue_append(partition, context.session):
            raise WorkLimitExceeded
        append_info = partition.append(data.records, acks, context.version, now_ms)
    except BrokerError as error:
        log_rejected_batch(topic, index, error, context)
        entry = error_entry(index, error)
        name_current_leader(response, topic, entry, context)
        return entry
    except WorkLimitExceeded:
        if not queued:
            queued.append(QueuedAppends(acks, context, waiting, unflushed))
        return queued[0].add(partition, data, in_transaction=verification_errors is not None)
    entry = PartitionProduceResponse(
        index, 0, append_info.first_offset, append_info.append_time_ms, append_info.log_start_offset
    )
    replica_manager.complete_delayed_fetches(partition)
    if partition.is_flush_pending:
        unflushed.append(ProducePartitionStatus(partition, append_info.last_offset + 1, entry))
    if acks == ACKS_ALL and partition.log.high_watermark <= append_info.last_offset:
        waiting.append(ProducePartitionStatus(partition, append_info.last_offset + 1, entry))
    return entry


def _respond_after_flush(
    request: ProduceRequest,
    response: ProduceResponse,
    unflushed: list[ProducePartitionStatus],
    waiting: list[ProducePartitionStatus],
    context: RequestContext,
) -> NoResponse | PendingResponse[ProduceResponse]:
    """Delay the response until its records are flushed."""
    pending: PendingResponse[ProduceResponse] = PendingResponse()
    remaining = len(unflushed)

    def on_result(status: ProducePartitionStatus, failure: StorageError | None) -> None:
        nonlocal remaining
        remaining -= 1
        if failure is not None:
            entry = status.entry
            entry.error_code, entry.base_offset = ErrorCode.KAFKA_STORAGE_ERROR, -1
            entry.error_message = str(failure)
        if remaining == 0 and request.acks != ACKS_NONE:
            replicating = [status for status in waiting if not status.entry.error_code]
            if replicating:
                _respond_after_replication(request, response, replicating, context, pending)
            else:
                pending.complete(response)

    for status in unflushed:
        context.broker.replica_manager.flush(status.partition, partial(on_result, status))
    # acks=0: a log that failed rejects the next append, which closes the connection.
    return NoResponse(first_error(response)) if request.acks == ACKS_NONE else pending


def _respond_after_replication(
    request: ProduceRequest,
    response: ProduceResponse,
    waiting: list[ProducePartitionStatus],
    context: RequestContext,
    pending: PendingResponse[ProduceResponse],
) -> PendingResponse[ProduceResponse]:
    delayed = DelayedProduce(waiting, lambda: pending.complete(name_leaders(response, context)))
    context.broker.replica_manager.delay_produce(delayed, required_offsets(waiting), request.timeout_ms)
    return pending


def error_response(
    request: ProduceRequest, code: ErrorCode, message: str | None
) -> ProduceResponse | NoResponse:
    if request.acks == ACKS_NONE:
        return NoResponse(message or code.name)
    error = BrokerError(code, message)
    return ProduceResponse(
        [
            TopicProduceResponse(
                topic.name, [error_entry(data.index, error) for data in topic.partition_data]
            )
            for topic in request.topic_data
        ]
    )
