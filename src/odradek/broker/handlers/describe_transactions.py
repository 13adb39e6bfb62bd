"""DescribeTransactions, version 0: state of transactional ids, and the partitions of their transactions.

Transactional ids succeed or fail independently.
"""

from __future__ import annotations

from odradek.broker.handlers.transaction_requests import require_transactional_id
from odradek.broker.requests.dispatcher import RequestContext
from odradek.coordinators.transactions.commands import TransactionDescription
from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import BrokerError, ErrorCode
from odradek.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


def describe_transactions(
    request: DescribeTransactionsRequest, context: RequestContext
) -> DescribeTransactionsResponse:
    states = [_describe(transactional_id, context) for transactional_id in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=states)


def _describe(transactional_id: str, context: RequestContext) -> TransactionState:
    try:
        context.require(AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, transactional_id)
        require_transactional_id(transactional_id)
        description = context.broker.transaction_coordinator.shard_of(transactional_id).describe(
            transactional_id
        )
    except BrokerError as error:
        return TransactionState(error.code, transactional_id)
    if description.error:
        return TransactionState(description.error, transactional_id)
    return TransactionState(
        ErrorCode.NONE,
        transactional_id,
        description.state,
        description.timeout_ms,
        description.start_ms,
        description.producer_id,
        description.producer_epoch,
        _topics(description, context),
    )


def _topics(description: TransactionDescription, context: RequestContext) -> list[TopicData]:
    """Return the partitions of the transaction, without topics that the sender may not describe."""
    names = (partition.topic for partition in description.partitions)
    denied = context.denied(AclOperation.DESCRIBE, AclResourceType.TOPIC, names)
    by_topic: dict[str, TopicData] = {}
    for topic, number in description.partitions:
        if topic in denied:
            continue
        by_topic.setdefault(topic, TopicData(topic, [])).partitions.append(number)
    return list(by_topic.values())


def error_response(
    request: DescribeTransactionsRequest, code: ErrorCode, message: str | None
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[
            TransactionState(code, transactional_id) for transactional_id in request.transactional_ids
        ]
    )
