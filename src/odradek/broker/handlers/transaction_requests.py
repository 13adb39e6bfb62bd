"""Shared parts of the transaction API handlers: checks, submission of commands, errors by client version.

API versions end here: commands and results of the coordinator have none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from odradek.broker.requests.dispatcher import RequestContext
from odradek.broker.requests.pending_response import PendingResponse
from odradek.coordinators.transactions.commands import Command
from odradek.model.errors import BrokerError, ErrorCode

R = TypeVar("R")


def require_transactional_id(transactional_id: str) -> None:
    """Reject an empty transactional id."""
    if not transactional_id:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "transactional id must be a non-empty str, got ''")


def submit_to_coordinator(
    context: RequestContext, transactional_id: str, command: Command, on_result: Callable[[Any], R]
) -> PendingResponse[R]:
    """Submit a command to the coordinator; ``on_result`` builds the response from its result.

    Raises BrokerError if the coordinator is not here, not loaded, or the transactional id is empty.
    """
    require_transactional_id(transactional_id)
    pending: PendingResponse[R] = PendingResponse()
    context.broker.transaction_coordinator.submit(
        transactional_id, command, lambda result: pending.complete(on_result(result))
    )
    return pending


def producer_fenced_for_version(code: ErrorCode, version: int, since: int) -> ErrorCode:
    """Replace PRODUCER_FENCED for clients before version ``since``, which do not know it."""
    if code is ErrorCode.PRODUCER_FENCED and version < since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
