"""UpdateMetadata, versions 0 to 8: live brokers and changed partitions, from the controller.

v0 has one address per broker, v1 endpoints; v2 adds racks, v3 listener names, v4 offline replicas, v5 the
broker epoch and the grouping by topic, v7 topic ids, v8 is_kraft_controller. A partition with leader -2 is
deleted.
"""

from __future__ import annotations

from collections.abc import Coroutine

from odradek.broker.requests.broker_epoch import is_broker_epoch_stale
from odradek.broker.requests.dispatcher import RequestContext
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import ErrorCode
from odradek.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

Result = UpdateMetadataResponse | Coroutine[None, None, UpdateMetadataResponse]


def update_metadata(request: UpdateMetadataRequest, context: RequestContext) -> Result:
    context.require_on_cluster(AclOperation.CLUSTER_ACTION)
    if is_broker_epoch_stale(request.broker_epoch, context.broker.broker_epoch()):
        return UpdateMetadataResponse(ErrorCode.STALE_BROKER_EPOCH)
    return _apply(request, context)


async def _apply(request: UpdateMetadataRequest, context: RequestContext) -> UpdateMetadataResponse:
    return UpdateMetadataResponse((await context.broker.replica_manager.update_metadata(request)).error)


def error_response(
    request: UpdateMetadataRequest, code: ErrorCode, message: str | None
) -> UpdateMetadataResponse:
    return UpdateMetadataResponse(code)
