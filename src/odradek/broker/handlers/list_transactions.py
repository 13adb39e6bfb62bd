"""ListTransactions, versions 0 and 1: the transactional ids this broker coordinates, without those that go.

Filters are by state and by producer id; v1 adds one by how long the transaction runs. States that do not
exist are named in the answer. Nothing is listed while some ids are being loaded.
"""

from __future__ import annotations

from odradek.broker.requests.dispatcher import Call
from odradek.coordinators.transactions.transaction_state import STATE_NAMES
from odradek.model.errors import ErrorCode
from odradek.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)


def list_transactions(request: ListTransactionsRequest, call: Call) -> ListTransactionsResponse:
    transactions = call.broker.transactions
    if transactions.is_loading:
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    found = [
        one
        for shard in transactions.shards()
        for one in shard.listing(
            frozenset(request.state_filters),
            frozenset(request.producer_id_filters),
            request.duration_filter,
            call.broker.clock.wall_ms(),
        )
    ]
    return ListTransactionsResponse(
        unknown_state_filters=[
            name for name in dict.fromkeys(request.state_filters) if name not in STATE_NAMES
        ],
        transaction_states=[
            TransactionState(one.transactional_id, one.producer_id, one.state) for one in found
        ],
    )


def refuse(
    request: ListTransactionsRequest, code: ErrorCode, message: str | None
) -> ListTransactionsResponse:
    return ListTransactionsResponse(error_code=code)
