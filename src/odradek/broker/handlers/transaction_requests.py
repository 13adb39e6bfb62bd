"""What handlers of the transaction APIs share: whom they ask, and which error an old client understands.

Versions end here: coordinators know commands and answers without any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from odradek.broker.requests.dispatcher import Call
from odradek.broker.requests.pending_response import Pending
from odradek.coordinators.transactions.commands import Command
from odradek.model.errors import BrokerError, ErrorCode

R = TypeVar("R")


def require_id(transactional_id: str) -> None:
    """Refuse a transactional id that is none."""
    if not transactional_id:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "a transactional id must not be empty")


def ask_coordinator(
    call: Call, transactional_id: str, command: Command, told: Callable[[Any], R]
) -> Pending[R]:
    """Have the coordinator of a transactional id judge a command; ``told`` makes the response of its answer.

    Refuses with the code that says why there is none here, or that the id is none.
    """
    require_id(transactional_id)
    pending: Pending[R] = Pending()
    call.broker.transactions.submit(transactional_id, command, lambda answer: pending.complete(told(answer)))
    return pending


def fenced_as_known(code: ErrorCode, version: int, since: int) -> ErrorCode:
    """Clients before version ``since`` of an API do not know PRODUCER_FENCED."""
    if code is ErrorCode.PRODUCER_FENCED and version < since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
