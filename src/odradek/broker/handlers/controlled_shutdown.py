"""ControlledShutdown, versions 0 to 3: the controller moves the leaderships of a broker that will stop.

The response names the replicated partitions that the broker still leads. v2 adds the broker epoch.
"""

from __future__ import annotations

from odradek.broker.requests.dispatcher import RequestContext
from odradek.controller import broker_epochs
from odradek.model.errors import ErrorCode
from odradek.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)


def controlled_shutdown(
    request: ControlledShutdownRequest, context: RequestContext
) -> ControlledShutdownResponse:
    controller_context = context.broker.membership.require_controller().context
    error = broker_epochs.check_controlled_shutdown(
        controller_context, request.broker_id, request.broker_epoch
    )
    if error:
        return ControlledShutdownResponse(error_code=error)
    # Nothing is moved yet: this controller runs on a cluster of one broker.
    remaining = broker_epochs.remaining_partitions(controller_context, request.broker_id)
    return ControlledShutdownResponse(
        remaining_partitions=[RemainingPartition(topic, number) for topic, number in remaining]
    )


def error_response(
    request: ControlledShutdownRequest, code: ErrorCode, message: str | None
) -> ControlledShutdownResponse:
    return ControlledShutdownResponse(error_code=code)
