"""FindCoordinator, versions 0 to 6: the coordinator of a group or a transactional id.

v1 adds the key type, v4 several keys per request, v6 share groups. The first request of a type creates its
internal topic; until it exists, and for share groups, which are not supported, the error is
COORDINATOR_NOT_AVAILABLE, on which clients retry.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.coordinators.group_coordinator import GroupCoordinator
from odradek.broker.coordinators.transaction_coordinator import TransactionCoordinator
from odradek.broker.requests.dispatcher import RequestContext
from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import BrokerError, ErrorCode
from odradek.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2

MULTIPLE_KEYS_SINCE: Final = 4
SHARE_SINCE: Final = 6


def find_coordinator(request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
    if context.version >= MULTIPLE_KEYS_SINCE:
        coordinators = [_coordinator(request.key_type, key, context) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=coordinators)
    return _single(_coordinator(request.key_type, request.key, context))


def _coordinator(key_type: int, key: str, context: RequestContext) -> Coordinator:
    try:
        _authorize(key_type, key, context)
        coordinator = _coordinator_service(key_type, context)
        broker, endpoint = coordinator.coordinator_of(key, context.session.listener_name)
    except BrokerError as error:
        return _error_coordinator(key, error.code, error.message)
    return Coordinator(key, broker.id, endpoint.host, endpoint.port)


def _authorize(key_type: int, key: str, context: RequestContext) -> None:
    if key_type == GROUP:
        context.require(AclOperation.DESCRIBE, AclResourceType.GROUP, key)
    elif key_type == TRANSACTION:
        context.require(AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, key)
    elif key_type == SHARE and context.version >= SHARE_SINCE:
        context.require_on_cluster(AclOperation.CLUSTER_ACTION)


def _coordinator_service(key_type: int, context: RequestContext) -> GroupCoordinator | TransactionCoordinator:
    if key_type == GROUP:
        return context.broker.group_coordinator
    if key_type == TRANSACTION:
        return context.broker.transaction_coordinator
    if key_type == SHARE and context.version >= SHARE_SINCE:
        raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "share groups are not supported")
    raise BrokerError(
        ErrorCode.INVALID_REQUEST, f"key type must be 0 (group) or 1 (transaction), got {key_type}"
    )


def _error_coordinator(key: str, code: ErrorCode, message: str | None) -> Coordinator:
    return Coordinator(key, -1, "", -1, code, message or code.name)


def _single(coordinator: Coordinator) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        error_code=coordinator.error_code,
        error_message=coordinator.error_message or ErrorCode.NONE.name,
        node_id=coordinator.node_id,
        host=coordinator.host,
        port=coordinator.port,
    )


def error_response(
    request: FindCoordinatorRequest, code: ErrorCode, message: str | None
) -> FindCoordinatorResponse:
    if request.key:
        return _single(_error_coordinator(request.key, code, message))
    return FindCoordinatorResponse(
        coordinators=[_error_coordinator(key, code, message) for key in request.coordinator_keys]
    )
