"""ControlledShutdown, versions 0 to 3: the controller moves the leaderships of a broker that will stop.

The response names the replicated partitions that the broker still leads. v2 adds the broker epoch.
"""

from __future__ import annotations

from odradek.broker.requests.dispatcher import RequestContext
from odradek.controller.events import ControlledShutdownRequested
from odradek.controller.replies import ControlledShutdownReply
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import ErrorCode
from odradek.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)


async def controlled_shutdown(
    request: ControlledShutdownRequest, context: RequestContext
) -> ControlledShutdownResponse:
    context.require_on_cluster(AclOperation.CLUSTER_ACTION)
    reply: ControlledShutdownReply = await context.broker.membership.require_controller().submit(
        ControlledShutdownRequested(request.broker_id, request.broker_epoch)
    )
    return ControlledShutdownResponse(
        error_code=reply.error,
        remaining_partitions=[RemainingPartition(topic, number) for topic, number in sorted(reply.remaining)],
    )


def error_response(
    request: ControlledShutdownRequest, code: ErrorCode, message: str | None
) -> ControlledShutdownResponse:
    # As in Kafka, which reports a controller that has moved as an exception with this code.
    if code is ErrorCode.NOT_CONTROLLER:
        code = ErrorCode.STALE_CONTROLLER_EPOCH
    return ControlledShutdownResponse(error_code=code)
