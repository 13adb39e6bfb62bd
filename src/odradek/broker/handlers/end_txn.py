"""EndTxn, versions 0 to 4: commit or abort a transaction.

It is answered once it is settled how the transaction ends, before the markers are written. v2 clients know
PRODUCER_FENCED, v3 is flexible, v4 only adds an error.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.handlers.transaction_requests import ask_coordinator, fenced_as_known
from odradek.broker.requests.dispatcher import Call
from odradek.broker.requests.pending_response import Pending
from odradek.coordinators.transactions.commands import EndTransaction
from odradek.model.errors import ErrorCode
from odradek.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

FENCED_SINCE: Final = 2


def end_txn(request: EndTxnRequest, call: Call) -> Pending[EndTxnResponse]:
    command = EndTransaction(
        request.transactional_id, request.producer_id, request.producer_epoch, request.committed
    )

    def told(code: ErrorCode) -> EndTxnResponse:
        return EndTxnResponse(error_code=fenced_as_known(code, call.version, FENCED_SINCE))

    return ask_coordinator(call, request.transactional_id, command, told)


def refuse(request: EndTxnRequest, code: ErrorCode, message: str | None) -> EndTxnResponse:
    return EndTxnResponse(error_code=code)
