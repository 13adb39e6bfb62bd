"""Errors in produce responses: their entries, log events, and the leader that a producer should turn to."""

from __future__ import annotations

from typing import Final

from odradek.broker.requests.current_leader import find_current_leader
from odradek.broker.requests.dispatcher import RequestContext
from odradek.model.errors import BrokerError, ErrorCode
from odradek.records.append_rules import RecordValidationError
from odradek.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
)

CURRENT_LEADER_SINCE: Final = 10

RETRIABLE_COORDINATOR_ERRORS: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Coordinator errors that become a retriable error, because producers do not expect them here."""

ROUTINE_ERRORS: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    }
)
"""Routine errors: the producer refreshes its metadata or retries."""


def verification_error(code: ErrorCode) -> BrokerError:
    """Map a failed verification to the error for the producer."""
    if code in RETRIABLE_COORDINATOR_ERRORS:
        return BrokerError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"partition could not be verified to be in the transaction: {code.name}",
        )
    if code is ErrorCode.INVALID_TXN_STATE:
        return BrokerError(code, "partition was not added to the transaction")
    return BrokerError(code)


def log_rejected_batch(topic: str, index: int, error: BrokerError, context: RequestContext) -> None:
    """Log a rejected batch, rate-limited per error code."""
    if error.code not in ROUTINE_ERRORS:
        context.broker.rejected_batches.warning(
            "batch_rejected",
            error.code.name,
            partition=f"{topic}-{index}",
            error=error.code.name,
            client_id=context.client_id,
            peer=context.session.peer,
            reason=error.message,
        )


def error_entry(index: int, error: BrokerError) -> PartitionProduceResponse:
    entry = PartitionProduceResponse(index, error.code, -1)
    fill_error(entry, error)
    return entry


def fill_error(entry: PartitionProduceResponse, error: BrokerError) -> None:
    entry.error_code = error.code
    entry.error_message = error.message
    if isinstance(error, RecordValidationError):
        entry.record_errors = [
            BatchIndexAndErrorMessage(record_index, message) for record_index, message in error.record_errors
        ]


def name_leaders(response: ProduceResponse, context: RequestContext) -> ProduceResponse:
    """Name the current leaders of partitions that lost theirs while the request was delayed."""
    for topic in response.responses:
        for entry in topic.partition_responses:
            if entry.error_code and entry.current_leader is None:
                name_current_leader(response, topic.name, entry, context)
    return response


def name_current_leader(
    response: ProduceResponse, topic: str, entry: PartitionProduceResponse, context: RequestContext
) -> None:
    """Say in an entry with NOT_LEADER_OR_FOLLOWER who leads, and in the response at which endpoint."""
    if entry.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER or context.version < CURRENT_LEADER_SINCE:
        return
    leader = find_current_leader(context.broker, topic, entry.index, context.session.listener_name)
    entry.current_leader = LeaderIdAndEpoch(leader.leader_id, leader.leader_epoch)
    node = leader.node
    if node is not None and all(node.node_id != each.node_id for each in response.node_endpoints):
        response.node_endpoints.append(NodeEndpoint(*node))


def first_error(response: ProduceResponse) -> str | None:
    """Return the reason to close an acks=0 connection: the first error of a partition, or None."""
    for topic in response.responses:
        for entry in topic.partition_responses:
            if entry.error_code:
                name = ErrorCode(entry.error_code).name
                return f"produce with acks=0 to {topic.name}-{entry.index} failed with {name}"
    return None
