"""EndTxn, versions 0 to 4: commit or abort a transaction.

The response is sent once the transaction is prepared, before the markers are written. v2 clients know
PRODUCER_FENCED, v3 is flexible, v4 only adds an error.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.handlers.transaction_requests import producer_fenced_for_version, submit_to_coordinator
from odradek.broker.requests.dispatcher import RequestContext
from odradek.broker.requests.pending_response import PendingResponse
from odradek.coordinators.transactions.commands import EndTransaction
from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import ErrorCode
from odradek.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

PRODUCER_FENCED_SINCE: Final = 2


def end_txn(request: EndTxnRequest, context: RequestContext) -> PendingResponse[EndTxnResponse]:
    context.require(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id)
    command = EndTransaction(
        request.transactional_id, request.producer_id, request.producer_epoch, request.committed
    )

    def on_result(code: ErrorCode) -> EndTxnResponse:
        return EndTxnResponse(
            error_code=producer_fenced_for_version(code, context.version, PRODUCER_FENCED_SINCE)
        )

    return submit_to_coordinator(context, request.transactional_id, command, on_result)


def error_response(request: EndTxnRequest, code: ErrorCode, message: str | None) -> EndTxnResponse:
    return EndTxnResponse(error_code=code)
