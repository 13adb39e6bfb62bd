"""AllocateProducerIds, version 0: the controller allocates a block of producer ids for a broker."""

from __future__ import annotations

from odradek.broker.requests.dispatcher import RequestContext
from odradek.controller.machine.context import ControllerContext
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import ErrorCode
from odradek.store.producer_id_manager import allocate_block
from odradek.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)


async def allocate_producer_ids(
    request: AllocateProducerIdsRequest, context: RequestContext
) -> AllocateProducerIdsResponse:
    context.require_on_cluster(AclOperation.CLUSTER_ACTION)
    membership = context.broker.membership
    controller = membership.require_controller()
    error = _check_broker_epoch(controller.context, request)
    if error:
        return AllocateProducerIdsResponse(error_code=error)
    block = await allocate_block(membership.store, request.broker_id)
    return AllocateProducerIdsResponse(
        producer_id_start=block.first, producer_id_len=block.last - block.first + 1
    )


def _check_broker_epoch(context: ControllerContext, request: AllocateProducerIdsRequest) -> ErrorCode:
    """Refuse a broker that is not registered, or under another epoch."""
    broker = context.brokers.get(request.broker_id)
    if broker is None:
        return ErrorCode.BROKER_ID_NOT_REGISTERED
    return ErrorCode.NONE if broker.broker_epoch == request.broker_epoch else ErrorCode.STALE_BROKER_EPOCH


def error_response(
    request: AllocateProducerIdsRequest, code: ErrorCode, message: str | None
) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(error_code=code)
