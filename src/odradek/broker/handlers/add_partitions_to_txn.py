"""AddPartitionsToTxn, versions 0 to 5: add partitions to a transaction, or verify that they are in it.

Versions 0 to 3 are for clients and have one transaction; v2 clients know PRODUCER_FENCED, v3 is flexible.
Versions 4 and 5 are for brokers and have many; v5 only adds an error.

Partitions are added all or none: if one does not exist, or is of an internal topic, the others get
OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from odradek.broker.handlers.transaction_requests import producer_fenced_for_version, require_transactional_id
from odradek.broker.requests.authorization import NO_NAMES
from odradek.broker.requests.dispatcher import RequestContext
from odradek.broker.requests.pending_response import PendingResponse
from odradek.coordinators.transactions.commands import AddPartitions, AddPartitionsResult
from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import INTERNAL_TOPICS, TopicPartition
from odradek.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

PRODUCER_FENCED_SINCE: Final = 2
MULTIPLE_TRANSACTIONS_SINCE: Final = 4

Codes = Mapping[TopicPartition, ErrorCode]
Result = AddPartitionsToTxnResponse | PendingResponse[AddPartitionsToTxnResponse]


def add_partitions_to_txn(request: AddPartitionsToTxnRequest, context: RequestContext) -> Result:
    if context.version >= MULTIPLE_TRANSACTIONS_SINCE:
        context.require_on_cluster(AclOperation.CLUSTER_ACTION)
    transactions = _transactions(request, context.version)
    results = [AddPartitionsToTxnResult(transaction.transactional_id) for transaction in transactions]
    pending: PendingResponse[AddPartitionsToTxnResponse] = PendingResponse()
    remaining = len(results)
    if not remaining:
        return AddPartitionsToTxnResponse()

    def on_result(result: AddPartitionsToTxnResult, codes: Codes) -> None:
        nonlocal remaining
        remaining -= 1
        result.topic_results = _topic_results(codes, context.version)
        if remaining == 0:
            pending.complete(_response(results, context.version))

    for transaction, result in zip(transactions, results, strict=True):
        _add(transaction, context, partial(on_result, result))
    return pending


def _transactions(request: AddPartitionsToTxnRequest, version: int) -> list[AddPartitionsToTxnTransaction]:
    if version >= MULTIPLE_TRANSACTIONS_SINCE:
        return request.transactions
    return [
        AddPartitionsToTxnTransaction(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            False,
            request.v3_and_below_topics,
        )
    ]


def _add(
    transaction: AddPartitionsToTxnTransaction, context: RequestContext, on_codes: Callable[[Codes], None]
) -> None:
    partitions = _partitions(transaction)
    if context.version < MULTIPLE_TRANSACTIONS_SINCE and not context.is_allowed(
        AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, transaction.transactional_id
    ):
        on_codes(dict.fromkeys(partitions, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        return
    errors = _partition_errors(partitions, context)
    if errors:
        on_codes(
            {partition: errors.get(partition, ErrorCode.OPERATION_NOT_ATTEMPTED) for partition in partitions}
        )
        return
    command = AddPartitions(
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        partitions,
        transaction.verify_only,
    )

    def on_result(result: AddPartitionsResult) -> None:
        on_codes(result.errors)

    try:
        require_transactional_id(transaction.transactional_id)
        context.broker.transaction_coordinator.submit(transaction.transactional_id, command, on_result)
    except BrokerError as error:
        on_codes(dict.fromkeys(partitions, error.code))


def _partitions(transaction: AddPartitionsToTxnTransaction) -> tuple[TopicPartition, ...]:
    named = (TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions)
    return tuple(dict.fromkeys(named))


def _partition_errors(partitions: Iterable[TopicPartition], context: RequestContext) -> Codes:
    """Return the partitions that cannot be added, with their errors. Brokers may add internal topics."""
    errors = {}
    is_of_client = context.version < MULTIPLE_TRANSACTIONS_SINCE
    denied = INTERNAL_TOPICS if is_of_client else NO_NAMES
    if is_of_client and context.authorizer is not None:
        names = {partition.topic for partition in partitions} - INTERNAL_TOPICS
        denied |= context.denied(AclOperation.WRITE, AclResourceType.TOPIC, names)
    for partition in partitions:
        if partition.topic in denied:
            errors[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif context.broker.metadata_cache.partition(*partition) is None:
            errors[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return errors


def _topic_results(codes: Codes, version: int) -> list[AddPartitionsToTxnTopicResult]:
    by_topic: dict[str, AddPartitionsToTxnTopicResult] = {}
    for (topic, index), code in codes.items():
        known = producer_fenced_for_version(code, version, PRODUCER_FENCED_SINCE)
        result = by_topic.setdefault(topic, AddPartitionsToTxnTopicResult(topic, []))
        result.results_by_partition.append(AddPartitionsToTxnPartitionResult(index, known))
    return list(by_topic.values())


def _response(results: list[AddPartitionsToTxnResult], version: int) -> AddPartitionsToTxnResponse:
    if version >= MULTIPLE_TRANSACTIONS_SINCE:
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)


def error_response(
    request: AddPartitionsToTxnRequest, code: ErrorCode, message: str | None
) -> AddPartitionsToTxnResponse:
    single = _transactions(request, 0)[0]
    codes = dict.fromkeys(_partitions(single), code)
    return AddPartitionsToTxnResponse(
        error_code=code, results_by_topic_v3_and_below=_topic_results(codes, PRODUCER_FENCED_SINCE)
    )
