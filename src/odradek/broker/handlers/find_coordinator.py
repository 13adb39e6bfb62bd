"""FindCoordinator, versions 0 to 6: which broker looks after a group or a transactional id.

v1 adds the kind of key, v4 asks for many keys at once, v6 knows share groups. The topic behind a kind is made
when a coordinator of that kind is first asked for; until it is there, and for share groups, which nobody
coordinates here, the answer is COORDINATOR_NOT_AVAILABLE, upon which clients ask again.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.coordinators.group_coordinator import Groups
from odradek.broker.coordinators.transaction_coordinator import Transactions
from odradek.broker.requests.dispatcher import Call
from odradek.model.errors import BrokerError, ErrorCode
from odradek.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2

MANY_KEYS_SINCE: Final = 4
SHARE_SINCE: Final = 6


def find_coordinator(request: FindCoordinatorRequest, call: Call) -> FindCoordinatorResponse:
    if call.version >= MANY_KEYS_SINCE:
        found = [_coordinator(request.key_type, key, call) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)
    return _single(_coordinator(request.key_type, request.key, call))


def _coordinator(key_type: int, key: str, call: Call) -> Coordinator:
    try:
        coordinators = _coordinators(key_type, call)
        broker, endpoint = coordinators.coordinator_of(key, call.session.listener_name)
    except BrokerError as refused:
        return _nobody(key, refused.code, refused.message)
    return Coordinator(key, broker.id, endpoint.host, endpoint.port)


def _coordinators(key_type: int, call: Call) -> Groups | Transactions:
    if key_type == GROUP:
        return call.broker.groups
    if key_type == TRANSACTION:
        return call.broker.transactions
    if key_type == SHARE and call.version >= SHARE_SINCE:
        raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "share groups are not coordinated here")
    raise BrokerError(ErrorCode.INVALID_REQUEST, f"no coordinator has keys of type {key_type}")


def _nobody(key: str, code: ErrorCode, message: str | None) -> Coordinator:
    return Coordinator(key, -1, "", -1, code, message or code.name)


def _single(found: Coordinator) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message or ErrorCode.NONE.name,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def refuse(request: FindCoordinatorRequest, code: ErrorCode, message: str | None) -> FindCoordinatorResponse:
    if request.key:
        return _single(_nobody(request.key, code, message))
    return FindCoordinatorResponse(
        coordinators=[_nobody(key, code, message) for key in request.coordinator_keys]
    )
