"""DescribeTransactions, version 0: the state of transactional ids, and the partitions of their transactions.

Each id succeeds or fails alone.
"""

from __future__ import annotations

from odradek.broker.handlers.transaction_requests import require_id
from odradek.broker.requests.dispatcher import Call
from odradek.coordinators.transactions.commands import TransactionDescription
from odradek.model.errors import BrokerError, ErrorCode
from odradek.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


def describe_transactions(request: DescribeTransactionsRequest, call: Call) -> DescribeTransactionsResponse:
    states = [_described(transactional_id, call) for transactional_id in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=states)


def _described(transactional_id: str, call: Call) -> TransactionState:
    try:
        require_id(transactional_id)
        found = call.broker.transactions.shard_of(transactional_id).describe(transactional_id)
    except BrokerError as refused:
        return TransactionState(refused.code, transactional_id)
    if found.error:
        return TransactionState(found.error, transactional_id)
    return TransactionState(
        ErrorCode.NONE,
        transactional_id,
        found.state,
        found.timeout_ms,
        found.start_ms,
        found.producer_id,
        found.producer_epoch,
        _topics(found),
    )


def _topics(found: TransactionDescription) -> list[TopicData]:
    by_topic: dict[str, TopicData] = {}
    for topic, number in found.partitions:
        by_topic.setdefault(topic, TopicData(topic, [])).partitions.append(number)
    return list(by_topic.values())


def refuse(
    request: DescribeTransactionsRequest, code: ErrorCode, message: str | None
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[TransactionState(code, one) for one in request.transactional_ids]
    )
