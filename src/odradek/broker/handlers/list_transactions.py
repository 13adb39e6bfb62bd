"""ListTransactions, versions 0 and 1: the transactional ids this broker coordinates, except Dead ones.

Filters are by state and producer id; v1 adds the duration. Unknown states are returned in the response.
Nothing is listed while some transactional ids are loading.
"""

from __future__ import annotations

from odradek.broker.requests.dispatcher import RequestContext
from odradek.coordinators.transactions.transaction_state import STATE_NAMES
from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import ErrorCode
from odradek.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)


def list_transactions(request: ListTransactionsRequest, context: RequestContext) -> ListTransactionsResponse:
    coordinator = context.broker.transaction_coordinator
    if coordinator.is_loading:
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    listings = [
        listing
        for shard in coordinator.shards()
        for listing in shard.listing(
            frozenset(request.state_filters),
            frozenset(request.producer_id_filters),
            request.duration_filter,
            context.broker.clock.wall_ms(),
        )
    ]
    denied = context.denied(
        AclOperation.DESCRIBE,
        AclResourceType.TRANSACTIONAL_ID,
        (listing.transactional_id for listing in listings),
        log_if_denied=False,
    )
    return ListTransactionsResponse(
        unknown_state_filters=[
            name for name in dict.fromkeys(request.state_filters) if name not in STATE_NAMES
        ],
        transaction_states=[
            TransactionState(listing.transactional_id, listing.producer_id, listing.state)
            for listing in listings
            if listing.transactional_id not in denied
        ],
    )


def error_response(
    request: ListTransactionsRequest, code: ErrorCode, message: str | None
) -> ListTransactionsResponse:
    return ListTransactionsResponse(error_code=code)
