"""AddPartitionsToTxn, versions 0 to 5: partitions join a transaction, or it is asked whether they are in it.

Versions 0 to 3 are for clients and name one transaction; v2 clients know PRODUCER_FENCED, v3 is flexible.
Versions 4 and 5 are for brokers, which ask for many at once; v5 only adds an error.

A transaction gets all of its partitions or none: if one of them is not there, or belongs to the brokers, the
others are answered OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from odradek.broker.handlers.transaction_requests import fenced_as_known, require_id
from odradek.broker.requests.dispatcher import Call
from odradek.broker.requests.pending_response import Pending
from odradek.coordinators.transactions.commands import AddPartitions, AddPartitionsResult
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

FENCED_SINCE: Final = 2
MANY_SINCE: Final = 4

Codes = Mapping[TopicPartition, ErrorCode]
Result = AddPartitionsToTxnResponse | Pending[AddPartitionsToTxnResponse]


def add_partitions_to_txn(request: AddPartitionsToTxnRequest, call: Call) -> Result:
    transactions = _transactions(request, call.version)
    results = [AddPartitionsToTxnResult(one.transactional_id) for one in transactions]
    pending: Pending[AddPartitionsToTxnResponse] = Pending()
    left = len(results)
    if not left:
        return AddPartitionsToTxnResponse()

    def told(result: AddPartitionsToTxnResult, codes: Codes) -> None:
        nonlocal left
        left -= 1
        result.topic_results = _topic_results(codes, call.version)
        if left == 0:
            pending.complete(_response(results, call.version))

    for transaction, result in zip(transactions, results, strict=True):
        _add(transaction, call, partial(told, result))
    return pending


def _transactions(request: AddPartitionsToTxnRequest, version: int) -> list[AddPartitionsToTxnTransaction]:
    if version >= MANY_SINCE:
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


def _add(transaction: AddPartitionsToTxnTransaction, call: Call, told: Callable[[Codes], None]) -> None:
    partitions = _partitions(transaction)
    faults = _faults(partitions, call)
    if faults:
        told({one: faults.get(one, ErrorCode.OPERATION_NOT_ATTEMPTED) for one in partitions})
        return
    command = AddPartitions(
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        partitions,
        transaction.verify_only,
    )

    def answered(answer: AddPartitionsResult) -> None:
        told(answer.errors)

    try:
        require_id(transaction.transactional_id)
        call.broker.transactions.submit(transaction.transactional_id, command, answered)
    except BrokerError as refused:
        told(dict.fromkeys(partitions, refused.code))


def _partitions(transaction: AddPartitionsToTxnTransaction) -> tuple[TopicPartition, ...]:
    named = (TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions)
    return tuple(dict.fromkeys(named))


def _faults(partitions: Iterable[TopicPartition], call: Call) -> Codes:
    """What cannot join a transaction, and why. Brokers answer for their own topics themselves."""
    faults = {}
    for partition in partitions:
        if call.version < MANY_SINCE and partition.topic in INTERNAL_TOPICS:
            faults[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif call.broker.image.partition(*partition) is None:
            faults[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return faults


def _topic_results(codes: Codes, version: int) -> list[AddPartitionsToTxnTopicResult]:
    by_topic: dict[str, AddPartitionsToTxnTopicResult] = {}
    for (topic, index), code in codes.items():
        known = fenced_as_known(code, version, FENCED_SINCE)
        result = by_topic.setdefault(topic, AddPartitionsToTxnTopicResult(topic, []))
        result.results_by_partition.append(AddPartitionsToTxnPartitionResult(index, known))
    return list(by_topic.values())


def _response(results: list[AddPartitionsToTxnResult], version: int) -> AddPartitionsToTxnResponse:
    if version >= MANY_SINCE:
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)


def refuse(
    request: AddPartitionsToTxnRequest, code: ErrorCode, message: str | None
) -> AddPartitionsToTxnResponse:
    single = _transactions(request, 0)[0]
    codes = dict.fromkeys(_partitions(single), code)
    return AddPartitionsToTxnResponse(
        error_code=code, results_by_topic_v3_and_below=_topic_results(codes, FENCED_SINCE)
    )
